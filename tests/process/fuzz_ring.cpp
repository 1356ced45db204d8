// A libFuzzer target of guests that write anything into their shared memory and their messages. The
// host must stay within its memory, and the buffer must count every step, whatever the guests do.
#include "buffer/buffer_core.hpp"
#include "process/session.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/library.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using namespace reprise;
using namespace reprise::process;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// Reads values from the fuzzer's input; zeros after its end.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : left_(bytes) {}

  [[nodiscard]] bool empty() const { return left_.empty(); }
  void fill(std::span<std::byte> to) {
    const std::size_t available = std::min(to.size(), left_.size());
    std::ranges::fill(to, std::byte{0});
    std::ranges::copy(left_.first(available), to.begin());
    left_ = left_.subspan(available);
  }
  template <class T>
  T take() {
    std::array<std::byte, sizeof(T)> bytes{};
    fill(bytes);
    T value;
    std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof(T));
    return value;
  }
  std::size_t below(std::size_t n) { return take<std::uint8_t>() % n; }

 private:
  std::span<const std::byte> left_;
};

// `kind`, 0 to 11: odd for sequences, from 6 on with more fields, multiples of 3 with a limiter.
bool has_sequences(std::size_t kind) {
  return kind % 2 != 0;
}

Schema schema_of(std::size_t kind) {
  Schema schema;
  schema.observation<std::uint64_t>("id");
  schema.reward("reward");
  if (kind >= 6) {
    schema.discount("discount");
    schema.compress(schema.observation<std::uint8_t>("frame", {8, 64}));
    schema.mutable_column<float>("latent", {2});
    if (has_sequences(kind)) {
      schema.recurrent_state<float>("state", {3});
    }
  }
  return schema;
}

Options options_of(std::size_t kind) {
  Options options{.capacity_steps = 40,
                  .window = Transitions{.n_step = 3, .frame_stack = 2},
                  .max_writers = 3,
                  .chunk_steps = 16,
                  .shards = 2};
  if (has_sequences(kind)) {
    options.window = Sequences{.length = 4, .period = 2, .burn_in = 1};
  }
  if (kind % 3 == 0) {
    options.rate_limiter =
        SampleToInsertRatio{.samples_per_insert = 1.0, .min_size = 2, .error_buffer = 8.0};
  }
  return options;
}

/// A guest's vector writer and a guest's sampler, with the host's sessions that serve them.
class Guests {
 public:
  Guests(ReplayBuffer& replay, Input& input)
      : input_(input),
        core_(test::core_of(replay)),
        layout_(core_->format(), kEnvironments, kRows),
        writer_(std::make_unique<WriterSession>(core_, kEnvironments, kRows)),
        draws_(std::make_unique<DrawSession>(core_, SamplerOptions{}, 0, kMaxBytes)),
        memory_(Region::map(Descriptor(::dup(writer_->memory())), layout_.bytes())),
        sampler_(replay.sampler()) {
    std::array<int, 2> ends{};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
    host_ = Channel(Descriptor(ends[0]));
    guest_ = Channel(Descriptor(ends[1]));
  }
  /// Lets the writer's guest leave, and serves until the host has taken its steps.
  ~Guests() {
    if (writer_) {
      writer_->guest_left(/*died=*/true);
      for (int i = 0; i < 100 && !writer_->finished(); ++i) {
        serve(nullptr);
        if (!writer_) {
          return;
        }
        static_cast<void>(sampler_.sample(1, {.timeout = std::chrono::nanoseconds(0)}));
      }
    }
  }
  Guests(const Guests&) = delete;
  Guests& operator=(const Guests&) = delete;

  /// Makes a write, a message or a call of the host that the input chooses.
  void step() {
    const std::size_t e = input_.below(kEnvironments);
    switch (input_.below(9)) {
      case 0:
      case 1: {  // A row that the host is likely to accept.
        std::byte* const row = layout_.row(memory_.data(), e, published_[e]);
        input_.fill({row + sizeof(StepHeader), input_.below(32)});
        const StepHeader header{.end = static_cast<std::uint8_t>(input_.below(8) == 0 ? 1 : 0),
                                .first = static_cast<std::uint8_t>(published_[e] == 0 ? 1 : 0)};
        std::memcpy(row, &header, sizeof(header));
        return publish(e, header.end != 0 ? 2 : 1);
      }
      case 2:
        return input_.fill(
            {layout_.row(memory_.data(), e, input_.below(kRows)), sizeof(StepHeader)});
      case 3:
        return publish(e, input_.take<std::uint16_t>());
      case 4: {
        const std::size_t at = input_.take<std::uint32_t>() % (layout_.bytes() - 8);
        return input_.fill({memory_.data() + at, 8});
      }
      case 5:
        return serve(&host_);
      case 6: {
        SampleCall call = input_.take<SampleCall>();
        call.items %= input_.below(8) == 0 ? ~std::uint64_t{0} : 64;
        return send(MessageKind::Sample, bytes_of(call));
      }
      case 7: {
        const UpdateCall call{.number = 1, .selector = input_.below(2), .keys = 3};
        std::array<std::byte, 36> keys_and_priorities{};  // 12 bytes for each of 3 keys.
        input_.fill(keys_and_priorities);
        return send(MessageKind::Update, joined(call, keys_and_priorities));
      }
      default: {
        std::vector<std::byte> bytes(input_.below(60));
        input_.fill(bytes);
        send(static_cast<MessageKind>(input_.below(15)), bytes);
        static_cast<void>(sampler_.sample(1, {.timeout = std::chrono::nanoseconds(0)}));
      }
    }
  }

 private:
  static constexpr std::size_t kEnvironments = 2;
  static constexpr std::size_t kRows = 8;
  /// The largest memory of a batch.
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;

  void publish(std::size_t e, std::uint64_t more) {
    RingLayout::words(memory_.data(), e).publish(published_[e] += more);
  }
  /// Serves the writer as `Server::serve` and `Server::handle` do.
  void serve(Channel* channel) {
    if (writer_) {
      try {
        static_cast<void>(writer_->serve(channel));
      } catch (const std::exception&) {
        writer_->guest_left(/*died=*/true);
        writer_.reset();
      }
    }
  }
  /// Sends a message to the sampler's session, serves it, and drops the answers.
  void send(MessageKind kind, Bytes bytes) {
    Message message;
    message.kind = kind;
    message.bytes.assign(bytes.begin(), bytes.end());
    if (!draws_->handle(message, host_)) {
      draws_ = std::make_unique<DrawSession>(core_, SamplerOptions{}, 0, kMaxBytes);
    }
    static_cast<void>(draws_->serve(&host_));
    static_cast<void>(guest_.receive());
    while (guest_.next()) {
    }
  }

  Input& input_;
  const std::shared_ptr<buffer::BufferCore> core_;
  const RingLayout layout_;
  std::unique_ptr<WriterSession> writer_;
  std::unique_ptr<DrawSession> draws_;
  Region memory_;
  Sampler sampler_;
  Channel host_;
  Channel guest_;
  std::array<std::uint64_t, kEnvironments> published_{};
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(std::as_bytes(std::span(data, size)));
  const std::size_t kind = input.below(12);
  ReplayBuffer replay(schema_of(kind), options_of(kind));
  {
    Guests guests(replay, input);
    while (!input.empty()) {
      guests.step();
    }
  }
  // Whatever values the fields have, weights and probabilities must be numbers.
  Sampler sampler = replay.sampler();
  if (const SampleResult batch = sampler.sample(8, {.timeout = std::chrono::nanoseconds(0)})) {
    for (std::size_t i = 0; i < batch->size(); ++i) {
      require(batch->probabilities()[i] > 0.0 && batch->probabilities()[i] <= 1.0);
      require(batch->weights()[i] > 0.0F && batch->weights()[i] <= 1.0F);
    }
  }
  const Stats stats = replay.stats();
  require(stats.writers == 0);
  require(stats.committed_steps ==
          stats.resident_steps + stats.excess_steps + stats.evicted_steps + stats.pending_steps);
  return 0;
}
