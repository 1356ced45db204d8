#pragma once

#include <reprise/remover.hpp>

#include "program/findings.hpp"
#include "testing/library.hpp"

namespace stress {

/// Wraps a remover and checks how the buffer calls it (`reprise/remover.hpp`): only filled chunks
/// enter, each once, and get no more steps later; `sampled` names only chunks that have entered; a
/// victim is asked for only if a chunk has entered, and the victim loses all its steps before the
/// next victim is asked for. Without a limit of draws only the victim loses steps. The wrapped
/// remover chooses the victims.
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
