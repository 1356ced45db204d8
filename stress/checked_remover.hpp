#pragma once

#include <reprise/remover.hpp>

#include "findings.hpp"

#include <memory>
#include <utility>

namespace stress {

/// Another remover, and a look at what the buffer tells it (`reprise/remover.hpp`): only chunks
/// that are filled, none of which has more steps later, each once; draws from these alone; asked
/// for a victim only when it has one to name, whose steps all go before it is asked again, and,
/// where draws are not limited, nobody else's. Choices are the other's.
class CheckedRemover {
 public:
  /// `findings` outlives the buffer.
  CheckedRemover(reprise::Remover remover, bool draws_limited, Findings& findings)
      : remover_(std::move(remover)), draws_limited_(draws_limited), findings_(&findings) {}

  /// Null, as `Fifo`, where the other makes none.
  [[nodiscard]] std::unique_ptr<reprise::ShardRemover> make_shard_remover(
      const reprise::ShardChunks& chunks) const;

 private:
  reprise::Remover remover_;
  bool draws_limited_;
  Findings* findings_;
};

}  // namespace stress
