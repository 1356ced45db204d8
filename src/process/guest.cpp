#include <reprise/guest.hpp>

#include "api/access.hpp"
#include "process/guest_core.hpp"
#include "window/batch_access.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace reprise {

GuestSampler::GuestSampler(std::unique_ptr<process::DrawClient> client) noexcept
    : client_(std::move(client)) {}
GuestSampler::GuestSampler(GuestSampler&&) noexcept = default;
GuestSampler& GuestSampler::operator=(GuestSampler&&) noexcept = default;
GuestSampler::~GuestSampler() = default;

SampleResult GuestSampler::sample(std::size_t n, const SampleOptions& options) & {
  const SampleStatus status = client_->draw(n, options);
  return {status.code == SampleStatus::Code::Ok ? &client_->own() : nullptr, status};
}

SampleStatus GuestSampler::sample_into(Batch& batch, std::size_t offset, std::size_t n,
                                       const SampleOptions& options) {
  window::BatchStore& store = window::BatchAccess::store(batch);
  client_->check(store, offset, n);
  const SampleStatus status = client_->draw(n, options);
  if (status.code == SampleStatus::Code::Ok) {
    store.copy_from(client_->own_store(), n, offset);
    store.size = std::max(store.size, offset + n);
  }
  return status;
}

SampleStatus GuestSampler::sample_into(Batch& batch, const SampleOptions& options) {
  return sample_into(batch, 0, batch.capacity(), options);
}

Batch GuestSampler::make_batch(std::size_t n, std::pmr::memory_resource* memory) const {
  return client_->make_batch(n, memory);
}

UpdateResult GuestSampler::update_priorities(std::span<const ItemKey> keys,
                                             std::span<const float> priorities) {
  return client_->update(keys, priorities);
}

void GuestSampler::check(const Batch& batch, const SampleOptions& options) const {
  client_->check(window::BatchAccess::store(batch), batch.capacity(), options);
}

SampleStatus GuestSampler::outlook(std::size_t n) const {
  return client_->outlook(n);
}

Guest::Guest(std::shared_ptr<process::GuestCore> core) noexcept : core_(std::move(core)) {}
Guest::Guest(Guest&&) noexcept = default;
Guest& Guest::operator=(Guest&&) noexcept = default;
Guest::~Guest() = default;

const Schema& Guest::schema() const noexcept {
  return core_->outline().format.schema;
}
const Window& Guest::window() const noexcept {
  return core_->outline().format.window.options();
}

std::size_t Guest::max_writers() const noexcept {
  return core_->outline().max_writers;
}

Writer Guest::writer(const WriterOptions& options) {
  return std::move(writers(1, options).front());
}

VectorWriter Guest::vector_writer(std::size_t environments, const WriterOptions& options,
                                  AutoReset auto_reset) {
  return VectorWriter(writers(environments, options), auto_reset);
}

std::vector<Writer> Guest::writers(std::size_t environments, const WriterOptions& options) {
  base::require(environments != 0, base::Call{"VectorWriter"},
                "0 environments; allowed: at least 1");
  base::require(options.timeout.count() >= 0, base::OptionsOf{"WriterOptions"}, "timeout is ",
                options.timeout.count(), " ns; allowed: at least 0");
  const auto connection = std::make_shared<process::WriterConnection>(
      core_->open({.purpose = process::Purpose::Writer, .environments = environments}),
      environments);
  std::vector<Writer> writers;
  for (std::size_t e = 0; e < environments; ++e) {
    writers.push_back(
        detail::Access::make<Writer>(std::unique_ptr<detail::RowView, detail::WriterDeleter>(
            new process::RingWriter(connection, e, options))));
  }
  return writers;
}

GuestSampler Guest::sampler(const SamplerOptions& options, std::size_t selector) {
  return GuestSampler(std::make_unique<process::DrawClient>(
      core_->open({.purpose = process::Purpose::Sampler,
                   .unique_frames = options.unique_frames ? 1U : 0U,
                   .seed = options.seed,
                   .selector = selector,
                   .fresh = options.fresh}),
      options, selector));
}

UpdateResult Guest::update_priorities(std::span<const ItemKey> keys,
                                      std::span<const float> priorities, std::size_t selector) {
  return core_->update(keys, priorities, selector);
}

Stats Guest::stats() const {
  return core_->stats();
}

void Guest::close() noexcept {
  core_->close();
}
bool Guest::closed() const noexcept {
  return core_->closed();
}

Guest attach(const std::string& address, const AttachOptions& options) {
  base::require(options.timeout.count() >= 0, base::Call{"attach"}, "timeout is ",
                options.timeout.count(), " ns; allowed: at least 0");
  return process::GuestCore::guest(
      process::absolute_address(address),
      process::open_connection(address, {.purpose = process::Purpose::Calls}, options));
}

}  // namespace reprise
