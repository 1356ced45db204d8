#include "world.hpp"

#include "testing/library.hpp"

#include <bit>

namespace reprise::test {
namespace {

constexpr std::uint64_t kStride = 0x2545F4914F6CDD1DU;

std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t i) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + 8 * i, std::min<std::size_t>(8, bytes.size() - 8 * i));
  return value;
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

/// Whether `value` is off by more than rounding explains. `expected` is a sum of `steps` terms, and
/// `scale` the sum of their magnitudes.
bool differs(float value, double expected, double scale, std::uint32_t steps) {
  const double rounding = 1e-6 * std::max(1.0, steps / 8.0);
  return !(std::abs(static_cast<double>(value) - expected) <= rounding * scale + 1e-30);
}

}  // namespace

World::World(const Fields& fields) : recorded_(fields.recorded) {
  add("name", Role::Observation, DType::U8, {fields.name_bytes}, Content::Name);
  add("action", Role::Column, fields.many ? DType::I16 : DType::I32, {});
  add("reward", Role::Reward, DType::F32, {}, Content::Number);
  if (fields.many) {
    add("pixels", Role::Observation, DType::U8, {3, 7});
    add("clock", Role::Observation, DType::F64, {});
    add("large", Role::Observation, DType::U32, {40});
    add("pair", Role::Column, DType::I64, {2});
    add("second reward", Role::Reward, DType::F32, {}, Content::Number);
  }
  if (fields.discount) {
    add("discount", Role::Discount, DType::F32, {}, Content::Number);
  }
  if (fields.states) {
    add("lstm", Role::RecurrentState, DType::F32, {2, 3});
    add("gate", Role::RecurrentState, DType::U8, {5});
  }
  if (fields.compressed) {
    add("frame", Role::Observation, DType::U8, {600}, Content::Frame);
    schema_.compress(fields_.back());
    add("depth", Role::Observation, DType::U16, {259}, Content::Frame);
    schema_.compress(fields_.back());
  }
  if (fields.versions) {
    add("version", Role::Version, DType::I64, {}, Content::Version);
  }
  if (fields.mutable_columns) {
    add("latent", Role::MutableColumn, DType::U64, {9}, Content::Written);
    if (fields.recorded) {
      add("mark", Role::MutableColumn, DType::U8, {});
    }
  }
}

void World::add(const char* name, Role role, DType dtype, std::vector<std::size_t> shape,
                Content content) {
  fields_.push_back(schema_.declare(name, role, dtype, shape));
  contents_.push_back(content);
}

// ---- the contents of a field ----

std::uint64_t World::hash(AnyField field, const StepName& name, std::uint64_t write) const {
  return mix(name.hash() + name.episode_id + (field.index() + 1) * 0xD1342543DE82EF95U) ^
         (write == 0 ? 0 : mix(write));
}

std::uint64_t World::word(AnyField field, const StepName& name, std::uint64_t hash,
                          std::uint64_t write, std::size_t i) const {
  constexpr std::array<float, 4> kDiscounts{0.0F, 0.5F, 0.97F, 1.0F};
  switch (contents_[field.index()]) {
    case Content::Name:
      if (i < 3) {
        return i == 0   ? std::uint64_t{name.writer} << 32U | name.episode
               : i == 1 ? std::uint64_t{name.round} << 32U | name.position
                        : name.episode_id;
      }
      break;
    case Content::Number:
      // Multiples of 1/8 in [-16, 16) are exact in floats, so a return over exchanged steps
      // differs.
      return std::bit_cast<std::uint32_t>(field.role() == Role::Discount
                                              ? kDiscounts[hash % kDiscounts.size()]
                                              : static_cast<float>(hash >> 56U) / 8.0F - 16.0F);
    case Content::Written:
      if (i == 0) {
        return write;
      }
      break;
    case Content::Frame:
      // One frame in four is noise, which does not compress; the others repeat every 256 bytes.
      return hash % 4 == 0 ? mix(hash + i) : hash + i % 32 * kStride;
    case Content::Version:
      if (i == 0) {
        return static_cast<std::uint64_t>(version_of(name));
      }
      break;
    case Content::Plain:
      break;
  }
  return hash + i * kStride;
}

std::size_t World::special_words(AnyField field) const {
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  constexpr std::size_t kSpecial[] = {0, 3, 1, 1, kAll, 1};  // In the order of `Content`.
  return kSpecial[static_cast<std::size_t>(contents_[field.index()])];
}

void World::fill(std::span<std::byte> to, AnyField field, const StepName& name,
                 std::uint64_t write) const {
  const std::uint64_t hash = this->hash(field, name, write);
  const std::size_t special = special_words(field);
  const auto put = [&](std::size_t i, std::size_t bytes) {
    const std::uint64_t word =
        i < special ? this->word(field, name, hash, write, i) : hash + i * kStride;
    std::memcpy(to.data() + 8 * i, &word, bytes);
  };
  const std::size_t whole = to.size() / 8;
  for (std::size_t i = 0; i < whole; ++i) {
    put(i, 8);
  }
  put(whole, to.size() - 8 * whole);
}

std::vector<std::byte> World::content(AnyField field, const StepName& name) const {
  std::vector<std::byte> bytes(this->bytes(field));
  fill(bytes, field, name, write_of({}, field, name));
  return bytes;
}

bool World::matches(std::span<const std::byte> value, AnyField field, const StepName& name) const {
  thread_local std::vector<std::byte> expected;
  expected.resize(value.size());
  fill(expected, field, name, write_of(value, field, name));
  return std::ranges::equal(value, expected);
}

std::uint64_t World::write_of(std::span<const std::byte> value, AnyField field,
                              const StepName& name) const {
  if (field.role() != Role::MutableColumn) {
    return 0;
  }
  if (!recorded_) {
    return word_at(value, 0);
  }
  const auto change = changes_.find({field.index(), name.hash()});
  return change == changes_.end() ? 0 : change->second;
}

std::vector<std::byte> World::rewrite(AnyField field, const StepName& name, std::uint64_t write) {
  changes_[{field.index(), name.hash()}] = write;
  return content(field, name);
}

double World::number(AnyField field, const StepName& name) const {
  return std::bit_cast<float>(
      static_cast<std::uint32_t>(word(field, name, hash(field, name, 0), 0, 0)));
}

std::optional<StepName> World::recognise(std::span<const std::byte> value) const {
  const std::uint64_t first = word_at(value, 0);
  const std::uint64_t place = word_at(value, 1);
  const StepName name{static_cast<std::uint32_t>(first >> 32U), static_cast<std::uint32_t>(first),
                      static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32U),
                      word_at(value, 2)};
  return matches(value, name_field(), name) ? std::optional(name) : std::nullopt;
}

// ---- writing ----

void World::write_first(Writer& writer, const StepName& name) const {
  for (const AnyField field : fields_) {
    if (field.role() == Role::Observation) {
      fill(writer.now(field), field, name);
    }
  }
}

StepName World::begin(Writer& writer, StepName name) const {
  writer.begin_episode();
  name.episode_id = writer.episode_id();
  write_first(writer, name);
  return name;
}

void World::begin(Writer& writer) const {
  writer.begin_episode();
  write_first(writer, name_of(writer.episode_id(), 0));
}

void World::write_step(Writer& writer, const StepName& name) const {
  for (const AnyField field : fields_) {
    if (field.role() == Role::Observation) {
      fill(writer.next(field), field, name.after(1));
    } else if (field.role() == Role::Version) {
      writer.set_version(version_of(name));
    } else if (field.role() != Role::RecurrentState) {
      fill(writer.now(field), field, name);
    }
  }
}

void World::write_step(Writer& writer) const {
  write_step(writer, name_of(writer.episode_id(), writer.episode_steps()));
}

void World::write_states(Writer& writer, const StepName& name) const {
  for (const AnyField field : fields_) {
    if (field.role() == Role::RecurrentState) {
      fill(writer.now(field), field, name);
    }
  }
}

void World::write_states(Writer& writer) const {
  write_states(writer, name_of(writer.episode_id(), writer.episode_steps()));
}

void World::append(Writer& writer, std::size_t steps, End end) const {
  for (std::size_t i = 1; i <= steps; ++i) {
    if (!writer.in_episode()) {
      begin(writer);
    }
    write_step(writer);
    write_states(writer);
    writer.commit(i == steps ? end : End::Continue);
  }
}

// ---- reading ----

/// An item of a batch, to be compared with the values that follow from its name.
class World::Item {
 public:
  /// `steps` are the item's steps if it is of a stream, else empty.
  Item(const World& world, const Batch& batch, std::size_t item, const Window& window,
       const StepName& first, bool terminated, std::span<const StreamStep> steps)
      : world_(world),
        batch_(batch),
        item_(item),
        first_(first),
        length_(batch.lengths()[item]),
        of_stream_(!steps.empty()),
        item_steps_(steps.begin(), steps.end()) {
    for (std::uint32_t k = 0; k < length_ && !of_stream_; ++k) {
      const bool last = k + 1 == length_;
      item_steps_.push_back({first.after(k), last && terminated ? End::Terminated : End::Continue});
    }
    std::visit(
        [this](const auto& kind) {
          stack_ = kind.frame_stack;
          zero_padded_ = kind.stack_start == StackStart::Zeros;
          n_step_ = kind.n_step;
          gamma_ = static_cast<double>(kind.discount);
        },
        window);
    if (const auto* const sequences = std::get_if<Sequences>(&window)) {
      steps_ = length_;
      full_length_ = sequences->burn_in + sequences->length;
      next_offset_ = 1;
      targets_ = n_step_ != 0 ? full_length_ : 1;
    } else {
      next_offset_ = length_;
      repeats_last_ = true;
    }
  }

  [[nodiscard]] std::string mismatch() const {
    if (item_steps_.size() != length_) {
      return "it has " + std::to_string(length_) + " steps";
    }
    for (std::uint32_t t = 0; of_stream_ && t < length_; ++t) {
      const std::size_t place = item_ * full_length_ + t;
      const bool terminated = item_steps_[t].end == End::Terminated;
      if (batch_.is_first()[place] != (item_steps_[t].name.position == 0) ||
          batch_.terminated()[place] != terminated ||
          batch_.truncated()[place] != (ended(t) && !terminated)) {
        return "the batch says otherwise how step " + std::to_string(t) + " begins or ends";
      }
    }
    for (const AnyField field : world_.fields()) {
      std::string words =
          field.role() == Role::Observation ? check_observation(field)
          : field.role() == Role::RecurrentState
              ? check_values(batch_.now(field), field, 1, [&](std::size_t) { return step_at(0); })
              : check_values(batch_.now(field), field, full_length_, [&](std::size_t k) {
                  return k < steps_ ? step_shown(k) : std::nullopt;
                });
      if (!words.empty()) {
        return words;
      }
    }
    for (std::uint32_t t = 0; t < targets_; ++t) {
      if (std::string words = check_target(t); !words.empty()) {
        return "of step " + std::to_string(t) + ": " + words;
      }
    }
    return {};
  }

 private:
  /// The step or observation that a value shows; no value if its bytes are 0.
  using ShownStep = std::optional<StepName>;

  [[nodiscard]] ShownStep step_at(std::uint64_t ahead) const {
    return first_.after(static_cast<std::int64_t>(ahead));
  }
  [[nodiscard]] ShownStep step_shown(std::size_t step) const { return item_steps_[step].name; }
  /// Whether an episode ends with this step, as far as it shows in the item's steps.
  [[nodiscard]] bool ended(std::size_t step) const {
    return item_steps_[step].end != End::Continue ||
           (step + 1 < item_steps_.size() && item_steps_[step + 1].name.position == 0);
  }
  /// Frame k of the frame stack at the observation `ahead` steps after step `step` of the item.
  [[nodiscard]] ShownStep frame(std::size_t step, std::uint64_t ahead, std::uint64_t k) const {
    const StepName& name = item_steps_[step].name;
    const std::uint64_t newest = name.position + ahead;
    const std::uint64_t back = stack_ - 1 - k;
    if (back > newest && zero_padded_) {
      return std::nullopt;
    }
    return name.after(static_cast<std::int64_t>(newest - std::min(back, newest)) -
                      std::int64_t{name.position});
  }

  /// Compares this item's part of a column: value k of `count` has to be that of the step
  /// `shows(k)`.
  template <class Shows>
  [[nodiscard]] std::string check_values(std::span<const std::byte> column, AnyField field,
                                         std::size_t count, Shows shows) const {
    const std::size_t bytes = column.size() / batch_.size();
    return check_part(column.subspan(item_ * bytes, bytes), field, count, shows);
  }

  template <class Shows>
  [[nodiscard]] std::string check_part(std::span<const std::byte> values, AnyField field,
                                       std::size_t count, Shows shows) const {
    const std::size_t bytes = world_.bytes(field);
    for (std::size_t k = 0; k < count; ++k) {
      const ShownStep expected = shows(k);
      const auto value = values.subspan(k * bytes, bytes);
      if (expected ? !world_.matches(value, field, *expected) : !is_zero(value)) {
        const bool torn = field.index() == 0 || field.role() == Role::MutableColumn;
        const auto other = field.index() == 0 ? world_.recognise(value) : std::nullopt;
        return "'" + world_.schema().fields()[field.index()].name + "' " + std::to_string(k) +
               (other  ? " is " + other->words()
                : torn ? " is torn"
                       : " is wrong");
      }
    }
    return {};
  }

  [[nodiscard]] std::string check_observation(AnyField field) const {
    const std::size_t bytes = world_.bytes(field);
    const auto now = batch_.now_stacks(field);
    const auto next = batch_.next_stacks(field);
    for (std::uint32_t step = 0; step < steps_; ++step) {
      std::string words = check_part(now.at(item_, step), field, stack_,
                                     [&](std::size_t k) { return frame(step, 0, k); });
      if (words.empty()) {
        words = check_part(next.at(item_, step), field, stack_,
                           [&](std::size_t k) { return frame(step, next_offset_, k); });
        words = words.empty() ? words : "next " + words;
      }
      if (!words.empty()) {
        return words + " in the stack of step " + std::to_string(step);
      }
    }
    if (!batch_.unique_frames()) {
      return is_whole(batch_.now(field), now.at(item_, 0), steps_ * stack_ * bytes) &&
                     is_whole(batch_.next(field), next.at(item_, 0), steps_ * stack_ * bytes)
                 ? std::string()
                 : "there is something beyond its last step";
    }
    // Each frame comes once: first the frames of the first stack, then the observation after each
    // step.
    const std::size_t frames = batch_.frames(field).size() / (batch_.size() * bytes);
    return check_values(batch_.frames(field), field, frames, [&](std::size_t k) -> ShownStep {
      const std::uint64_t after = k - std::min<std::size_t>(k, stack_) + 1;
      return k < stack_                          ? frame(0, 0, k)
             : after <= length_ || repeats_last_ ? step_at(std::min<std::uint64_t>(after, length_))
                                                 : std::nullopt;
    });
  }

  /// Whether the checked stacks begin the item's part of the column, and zeros follow them.
  [[nodiscard]] bool is_whole(std::span<const std::byte> column, std::span<const std::byte> stacks,
                              std::size_t used) const {
    const std::size_t bytes = column.size() / batch_.size();
    const auto part = column.subspan(item_ * bytes, bytes);
    return part.data() == stacks.data() && is_zero(part.subspan(used));
  }

  /// Checks the returns and the discount of the target that begins with step t.
  [[nodiscard]] std::string check_target(std::uint32_t t) const {
    const std::size_t place = item_ * targets_ + t;
    std::uint32_t steps = 0;
    while (steps < n_step_ && t + steps < length_ && (steps == 0 || !ended(t + steps - 1))) {
      ++steps;
    }
    double discount = 1.0;
    for (const AnyField field : world_.fields()) {
      if (field.role() != Role::Reward || n_step_ == 0) {
        continue;
      }
      double returns = 0.0;
      double scale = 0.0;
      discount = 1.0;
      for (std::uint32_t k = 0; k < steps; ++k) {
        const double term = discount * world_.number(field, item_steps_[t + k].name);
        returns += term;
        scale += std::abs(term);
        discount *= factor(t + k);
      }
      float value = 0.0F;
      std::memcpy(&value, &batch_.returns(field)[place * sizeof(value)], sizeof(value));
      if (differs(value, returns, scale, steps)) {
        return "the return is " + std::to_string(value) + ", expected " + std::to_string(returns);
      }
    }
    // A discount of 0, as after a termination, has no rounding: only 0 is right.
    const std::uint32_t last = n_step_ == 0 ? length_ : t + steps;
    discount = t >= length_ || item_steps_[last - 1].end == End::Terminated ? 0.0 : discount;
    const float value = batch_.discounts()[place];
    return differs(value, discount, discount, steps) ? "the discount is " + std::to_string(value) +
                                                           ", expected " + std::to_string(discount)
                                                     : std::string();
  }

  /// The factor by which one step discounts.
  [[nodiscard]] double factor(std::uint32_t step) const {
    double factor = gamma_;
    for (const AnyField field : world_.fields()) {
      factor *= field.role() == Role::Discount ? world_.number(field, item_steps_[step].name) : 1.0;
    }
    return factor;
  }

  const World& world_;
  const Batch& batch_;
  const std::size_t item_;
  const StepName first_;
  const std::uint32_t length_;
  const bool of_stream_;
  std::vector<StreamStep> item_steps_;  ///< The item's steps, with how they end.
  std::uint32_t stack_ = 1;
  bool zero_padded_ = false;
  std::uint32_t n_step_ = 0;
  double gamma_ = 1.0;
  std::uint32_t steps_ = 1;        ///< Steps whose columns the item shows.
  std::uint32_t full_length_ = 1;  ///< Steps that the item would show if it were not cut short.
  std::uint32_t next_offset_ = 1;  ///< Steps between a stack of `now` and the stack of `next`.
  bool repeats_last_ = false;      ///< Whether values beyond the length repeat the last frame.
  std::uint32_t targets_ = 1;
};

std::optional<StepName> World::name_in(const Batch& batch, std::size_t item) const {
  return recognise(batch.now_stacks(name_field()).at(item, 0).last(bytes(name_field())));
}

std::vector<std::optional<StepName>> World::names_in(const Batch& batch, std::size_t item) const {
  std::vector<std::optional<StepName>> names;
  for (std::uint32_t step = 0; step < batch.lengths()[item]; ++step) {
    names.push_back(
        recognise(batch.now_stacks(name_field()).at(item, step).last(bytes(name_field()))));
  }
  return names;
}

std::string World::mismatch(const Batch& batch, std::size_t item, const Window& window,
                            bool terminated, std::span<const StreamStep> steps) const {
  const std::optional<StepName> name = name_in(batch, item);
  if (!name) {
    return "its first row is torn";
  }
  std::string words;
  const bool of_episode = name->is_of_guest() || batch.episode_ids()[item] == name->episode_id;
  if (!of_episode || batch.positions()[item] != name->position) {
    words = "the batch says episode id " + std::to_string(batch.episode_ids()[item]) +
            ", position " + std::to_string(batch.positions()[item]);
  } else {
    words = Item(*this, batch, item, window, *name, terminated, steps).mismatch();
  }
  return words.empty() ? words : name->words() + ": " + words;
}

}  // namespace reprise::test
