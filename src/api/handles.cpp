#include <reprise/replay_buffer.hpp>

#include "api/access.hpp"
#include "base/text.hpp"
#include "buffer/priorities.hpp"
#include "buffer/update.hpp"
#include "items/episode_sums.hpp"
#include "items/read_items.hpp"
#include "window/batch_access.hpp"

#include <algorithm>
#include <utility>

namespace reprise {

SelectorHandle::SelectorHandle(const ReplayBuffer& buffer)
    : SelectorHandle(detail::Access::core(buffer), 0) {}

SelectorHandle::SelectorHandle(std::shared_ptr<buffer::BufferCore> core, std::size_t place) noexcept
    : core_(std::move(core)), place_(place) {}

/// The first stop of an update on the data path; the next one is `buffer::update`.
UpdateResult SelectorHandle::update(std::span<const ItemKey> keys,
                                    std::span<const float> priorities) {
  return buffer::update(*core_, keys, priorities, place_);
}

std::size_t SelectorHandle::priorities(std::span<const ItemKey> keys,
                                       std::span<float> priorities) const {
  return buffer::priorities(*core_, keys, priorities, place_);
}

SelectorTotals SelectorHandle::totals() const {
  return buffer::totals(*core_, place_);
}

void SelectorHandle::set_alpha(float alpha) {
  buffer::set_alpha(*core_, alpha, place_);
}

float SelectorHandle::alpha() const {
  return buffer::alpha(*core_, place_);
}

void SelectorHandle::decay(float factor) {
  buffer::decay(*core_, factor, place_);
}

void SelectorHandle::reset(float priority) {
  buffer::reset(*core_, priority, place_);
}

Sampler SelectorHandle::sampler(const SamplerOptions& options) const {
  core_->life().check_not_forked();
  const std::size_t samplers = core_->saves.samplers.size();
  base::require(!options.resume || *options.resume < samplers, base::OptionsOf{"SamplerOptions"},
                "resume is ", options.resume.value_or(0), "; the buffer was loaded with ", samplers,
                " samplers");
  return detail::Access::make<Sampler>(
      std::unique_ptr<sampler::SamplerCore, detail::SamplerDeleter>(
          new sampler::SamplerCore(core_, options, place_)));
}

Episodes::Episodes(std::shared_ptr<buffer::BufferCore> core) noexcept : core_(std::move(core)) {}

std::optional<ItemKey> Episodes::find(std::uint64_t episode, std::uint64_t position) {
  return buffer::find(*core_, episode, position);
}

UpdateResult Episodes::update_priorities(std::uint64_t episode, std::uint64_t position,
                                         std::span<const float> priorities, std::size_t selector) {
  return buffer::update_episode(*core_, episode, position, priorities, selector);
}

std::size_t Episodes::gather(std::uint64_t episode, std::uint64_t position, std::size_t steps,
                             Batch& batch, std::size_t offset) {
  return items::gather_episode(*core_, window::BatchAccess::store(batch), offset, episode, position,
                               steps);
}

Batch Episodes::gather(std::uint64_t episode, std::uint64_t position, std::size_t steps) {
  Batch batch =
      window::BatchAccess::make(core_->schema(), core_->window(), std::max<std::size_t>(steps, 1),
                                nullptr, /*unique_frames=*/false);
  gather(episode, position, steps, batch);
  return batch;
}

std::size_t Episodes::sums(std::span<const ItemKey> keys, std::span<double> after,
                           std::span<double> totals, std::size_t selector) const {
  return items::episode_sums(*core_, keys, after, totals, selector);
}

std::size_t Episodes::remove(std::uint64_t episode) {
  return buffer::remove_episode(*core_, episode);
}

}  // namespace reprise
