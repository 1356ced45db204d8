#pragma once

#include <reprise/remover.hpp>

#include "program/findings.hpp"
#include "testing/library.hpp"

namespace stress {

/// Wraps a remover and checks how the buffer calls it (`reprise/remover.hpp`): only filled chunks
/// enter, each once, and none gets more steps later; only chunks that have entered are drawn from;
/// a victim is asked for only if a chunk has entered, and the victim loses all its steps before the
/// next one is asked for. Without a limit of draws no other chunk loses steps. The wrapped remover
/// makes the choices.
class CheckedRemover {
 public:
  /// `findings` has to outlive the buffer.
  CheckedRemover(reprise::Remover remover, bool draws_limited, Findings& findings)
      : remover_(std::move(remover)), draws_limited_(draws_limited), findings_(&findings) {}

  /// Returns null, as `Fifo` does, if the wrapped remover does.
  [[nodiscard]] std::unique_ptr<reprise::ShardRemover> make_shard_remover(
      const reprise::ShardChunks& chunks) const;

 private:
  reprise::Remover remover_;
  bool draws_limited_;
  Findings* findings_;
};

}  // namespace stress
