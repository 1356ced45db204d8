#pragma once

#include <reprise/mixed_sampler.hpp>
#include <reprise/replay_buffer.hpp>

#include "buffer/buffer_core.hpp"
#include "sampler/sampler_core.hpp"
#include "writer/step_writer.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace reprise::detail {

/// Gives the library's own code the private parts of the public classes, and makes such classes.
struct Access {
  using Core = std::shared_ptr<buffer::BufferCore>;

  [[nodiscard]] static const Core& core(const ReplayBuffer& replay) noexcept {
    return replay.core_;
  }
  [[nodiscard]] static const Core& core(const SelectorHandle& selector) noexcept {
    return selector.core_;
  }
  [[nodiscard]] static std::size_t place(const SelectorHandle& selector) noexcept {
    return selector.place_;
  }
  [[nodiscard]] static sampler::SamplerCore& core(Sampler& sampler) noexcept {
    return *sampler.core_;
  }
  [[nodiscard]] static const sampler::SamplerCore& core(const Sampler& sampler) noexcept {
    return *sampler.core_;
  }
  [[nodiscard]] static sampler::SamplerCore& core(MixedSampler& mixed, std::size_t part) {
    return mixed.sampler(part);
  }
  [[nodiscard]] static writer::StepWriter& core(const Writer& writer) noexcept {
    return static_cast<writer::StepWriter&>(*writer.rows_);
  }

  template <class Made, class... Parts>
  [[nodiscard]] static Made make(Parts&&... parts) {
    return Made(std::forward<Parts>(parts)...);
  }
};

}  // namespace reprise::detail
