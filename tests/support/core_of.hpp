#pragma once

#include <reprise/replay_buffer.hpp>

#include <memory>

namespace reprise::test {

/// What a buffer stands on, for tests that call the floor below the public class. An explicit
/// instantiation may name a private member.
std::shared_ptr<buffer::BufferCore>& core_of(ReplayBuffer& replay);

template <std::shared_ptr<buffer::BufferCore> ReplayBuffer::*kCore>
struct CoreMember {
  friend std::shared_ptr<buffer::BufferCore>& core_of(ReplayBuffer& replay) {
    return replay.*kCore;
  }
};
template struct CoreMember<&ReplayBuffer::core_>;

}  // namespace reprise::test
