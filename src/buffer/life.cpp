#include "buffer/life.hpp"

#include "base/text.hpp"

#include <memory>
#include <stdexcept>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace reprise::buffer {

Life::Life(bool wipe)
    : page_(base::Region::map(sizeof(Word))),
      word_(std::construct_at(reinterpret_cast<Word*>(page_.data()), kOpen)),
      wiped_(wipe && page_.wipe_on_fork()),
      maker_(process_id()) {}

std::int64_t Life::process_id() noexcept {
#if defined(__unix__) || defined(__APPLE__)
  return ::getpid();
#else
  return 0;  // No fork either.
#endif
}

void Life::refuse() const {
  throw std::logic_error(base::text("the replay buffer was made in process ", maker_,
                                    " and is used in process ", process_id(),
                                    ", a fork of it: make the buffer after the fork"));
}

}  // namespace reprise::buffer
