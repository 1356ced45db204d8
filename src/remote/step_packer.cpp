#include <reprise/remote.hpp>

#include "api/access.hpp"
#include "remote/packed_steps.hpp"
#include "remote/random_id.hpp"
#include "writer/step_writer.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace reprise {

namespace {

using remote::PackedSteps;

/// A writer of a `StepPacker`. It has memory for the current row and for the next row of its
/// episode; each step swaps the two. One thread at a time.
class PackingWriter final : public writer::StepWriter {
 public:
  /// Throws `std::runtime_error` if `max_writers` writers are alive.
  explicit PackingWriter(const std::shared_ptr<PackedSteps>& steps)
      : StepWriter({steps->outline.format, steps->outline.selectors, steps->life}, {}),
        steps_(steps),
        memory_(std::make_unique<std::byte[]>(2 * format_.layout.stride() +
                                              format_.layout.state_stride())),
        stream_(steps_->add_stream()) {}
  ~PackingWriter() override {
    if (!steps_->life.forked()) {
      steps_->leave(stream_);
    }
  }
  PackingWriter(const PackingWriter&) = delete;
  PackingWriter& operator=(const PackingWriter&) = delete;

  void begin_episode() override {
    start_episode(steps_->begin_episode(stream_));
    rows[kNow] = memory_.get();
    rows[kNext] = rows[kNow] + format_.layout.stride();
    rows[kState] = rows[kNext] + format_.layout.stride();
  }

  CommitStatus commit(End end, std::span<const float> priorities) override {
    if (steps_->life.closed()) {
      return CommitStatus::Closed;
    }
    steps_->commit({.stream = stream_,
                    .episode = episode_,
                    .position = position_,
                    .now = rows[kNow],
                    .next = rows[kNext],
                    .state = needs_states(position_) ? rows[kState] : nullptr,
                    .end = end,
                    .priorities = priorities});
    ++position_;
    if (end != End::Continue) {
      leave_episode();
    } else {
      if (open_ + 1 < format_.window.ahead()) {
        ++open_;
      }
      go_on();
      std::swap(rows[kNow], rows[kNext]);
    }
    return CommitStatus::Committed;
  }

 private:
  const std::shared_ptr<PackedSteps> steps_;
  /// The memory of both rows and of the current step's recurrent states. It is zeroed, because the
  /// padding between fields is shipped too.
  const std::unique_ptr<std::byte[]> memory_;
  const std::size_t stream_;
};

}  // namespace

StepPacker::StepPacker(const Schema& schema, const Options& of_shards,
                       std::optional<std::uint64_t> writer_id, const PackerLanes& lanes)
    : steps_(std::make_shared<PackedSteps>(schema, of_shards,
                                           writer_id ? *writer_id : remote::random_id(), lanes)) {}

StepPacker::~StepPacker() {
  if (steps_) {
    steps_->life.close();
  }
}

StepPacker::StepPacker(StepPacker&&) noexcept = default;

StepPacker& StepPacker::operator=(StepPacker&& other) noexcept {
  StepPacker before(std::move(other));  // After the swap this is the replaced packer, and closes.
  steps_.swap(before.steps_);
  return *this;
}

Writer StepPacker::writer() {
  return detail::Access::make<Writer>(
      std::unique_ptr<detail::RowView, detail::WriterDeleter>(new PackingWriter(steps_)));
}

VectorWriter StepPacker::vector_writer(std::size_t environments, AutoReset auto_reset) {
  std::vector<Writer> writers;
  for (std::size_t e = 0; e < environments; ++e) {
    writers.push_back(writer());
  }
  return VectorWriter(std::move(writers), auto_reset);
}

Blob StepPacker::take(std::size_t lane) {
  return steps_->take(lane);
}
std::size_t StepPacker::steps_of(std::span<const std::byte> shipment) {
  return static_cast<std::size_t>(remote::open(shipment, remote::BlobKind::Shipment).steps);
}
std::size_t StepPacker::steps() const {
  return steps_->steps();
}
std::size_t StepPacker::most_steps() const {
  return steps_->most_steps();
}
std::size_t StepPacker::steps_in(std::size_t lane) const {
  return steps_->steps_in(lane);
}
bool StepPacker::empty(std::size_t lane) const {
  return steps_->empty(lane);
}
std::size_t StepPacker::bytes() const {
  return steps_->bytes();
}
std::uint64_t StepPacker::writer_id() const noexcept {
  return steps_->writer_id();
}
std::uint64_t StepPacker::sequence(std::size_t lane) const {
  return steps_->sequence(lane);
}

}  // namespace reprise
