#include <reprise/replay_buffer.hpp>

#include "api/access.hpp"
#include "base/text.hpp"
#include "buffer/update.hpp"
#include "items/hindsight.hpp"
#include "items/read_items.hpp"
#include "items/write_items.hpp"
#include "record/posix_file_system.hpp"
#include "save/attachments.hpp"
#include "save/save.hpp"
#include "window/batch_access.hpp"
#include "writer/writer_core.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace reprise {

ReplayBuffer::ReplayBuffer(const Schema& schema, const Options& options)
    : core_(std::make_shared<buffer::BufferCore>(schema, options)) {}

ReplayBuffer::ReplayBuffer(std::shared_ptr<buffer::BufferCore> core) noexcept
    : core_(std::move(core)) {}

ReplayBuffer::~ReplayBuffer() {
  if (core_) {
    core_->close();
  }
}

ReplayBuffer::ReplayBuffer(ReplayBuffer&&) noexcept = default;

ReplayBuffer& ReplayBuffer::operator=(ReplayBuffer&& other) noexcept {
  // The destructor of `before` closes the former buffer, unless both are the same.
  ReplayBuffer before(std::move(other));
  core_.swap(before.core_);
  return *this;
}

Writer ReplayBuffer::writer(const WriterOptions& options) {
  base::require(options.timeout.count() >= 0, base::OptionsOf{"WriterOptions"}, "timeout is ",
                options.timeout.count(), " ns; allowed: at least 0");
  core_->life().check_not_forked();
  const std::optional<std::size_t> slot = core_->slots().take();
  if (!slot) {
    base::refuse<std::runtime_error>("max_writers is ", core_->options().max_writers,
                                     ", and that many writers are alive");
  }
  try {
    return detail::Access::make<Writer>(std::unique_ptr<detail::RowView, detail::WriterDeleter>(
        new writer::WriterCore(core_, *slot, options)));
  } catch (...) {
    core_->slots().give_back(*slot);
    throw;
  }
}

Sampler ReplayBuffer::sampler(const SamplerOptions& options) {
  return selector().sampler(options);
}

Batch ReplayBuffer::make_batch(std::size_t n, std::pmr::memory_resource* memory,
                               bool unique_frames) const {
  return window::BatchAccess::make(core_->schema(), core_->window(), n, memory, unique_frames);
}

SelectorHandle ReplayBuffer::selector(std::size_t place) const {
  static_cast<void>(core_->selectors().at(place));
  return detail::Access::make<SelectorHandle>(core_, place);
}

UpdateResult ReplayBuffer::update_priorities(std::span<const ItemKey> keys,
                                             std::span<const float> priorities) {
  return buffer::update(*core_, keys, priorities, 0);
}

Episodes ReplayBuffer::episodes() const {
  buffer::require_episode_index(*core_);
  return detail::Access::make<Episodes>(core_);
}

std::size_t ReplayBuffer::gather(std::span<const ItemKey> keys, Batch& batch, std::size_t offset) {
  return items::gather(*core_, window::BatchAccess::store(batch), offset, keys);
}

Batch ReplayBuffer::gather(std::span<const ItemKey> keys) {
  Batch batch = make_batch(std::max<std::size_t>(keys.size(), 1));
  gather(keys, batch);
  return batch;
}

UpdateResult ReplayBuffer::update(std::span<const ItemKey> keys, AnyField field,
                                  std::span<const std::byte> values, std::size_t skip) {
  return items::update_column(*core_, keys, field, values, skip);
}

Hindsight ReplayBuffer::hindsight(AnyField achieved, const HindsightOptions& options) {
  core_->life().check_not_forked();
  return detail::Access::make<Hindsight>(
      std::unique_ptr<items::HindsightCore, detail::HindsightDeleter>(
          new items::HindsightCore(core_, achieved, options)));
}

std::size_t ReplayBuffer::remove(std::span<const ItemKey> keys) {
  return buffer::remove(*core_, keys);
}

void ReplayBuffer::set_version(std::int64_t version) {
  core_->life().check_not_forked();
  const base::Call call{"set_version"};
  base::require(version >= 0, call, "version is ", version, "; allowed: at least 0");
  base::require(core_->layout().version_field().has_value(), call,
                "the schema has no version; allowed: one that declares it");
  core_->set_version(version);
}

std::int64_t ReplayBuffer::version() const noexcept {
  return core_->counters.version.load(std::memory_order_relaxed);
}

void ReplayBuffer::set_samples_per_insert(double samples_per_insert) {
  core_->set_samples_per_insert(samples_per_insert);
}

void ReplayBuffer::clear() {
  buffer::clear(*core_);
}

SaveResult ReplayBuffer::save(const std::filesystem::path& directory, const SaveOptions& options) {
  core_->life().check_not_forked();
  std::vector<base::Random::State> samplers;
  samplers.reserve(options.samplers.size());
  for (const Sampler* const sampler : options.samplers) {
    base::require(sampler != nullptr, base::OptionsOf{"SaveOptions"},
                  "samplers has a null pointer");
    samplers.push_back(detail::Access::core(*sampler).random_state());
  }
  save::check_attachments(options.attachments);
  record::PosixFileSystem files;
  return save::save(*core_, files, directory.string(), options, samplers);
}

LoadResult ReplayBuffer::load(const std::filesystem::path& directory, const LoadOptions& options) {
  record::PosixFileSystem files;
  save::Loaded loaded = save::load(files, directory.string(), options, nullptr);
  return {ReplayBuffer(std::move(loaded.core)), std::move(loaded.result.skipped),
          std::move(loaded.result.attachments)};
}

RestoreResult ReplayBuffer::restore(const std::filesystem::path& directory,
                                    const LoadOptions& options) {
  core_->life().check_not_forked();
  record::PosixFileSystem files;
  save::Loaded loaded = save::load(files, directory.string(), options, core_.get());
  *this = ReplayBuffer(std::move(loaded.core));
  return std::move(loaded.result);
}

std::size_t ReplayBuffer::size() const {
  core_->life().check_not_forked();
  core_->shards().drain();
  return core_->shards().steps();
}

void ReplayBuffer::close() noexcept {
  core_->close();
}
bool ReplayBuffer::closed() const noexcept {
  return core_->closed();
}
Stats ReplayBuffer::stats() const {
  return core_->stats();
}
const Schema& ReplayBuffer::schema() const noexcept {
  return core_->schema();
}
const Options& ReplayBuffer::options() const noexcept {
  return core_->options();
}

}  // namespace reprise
