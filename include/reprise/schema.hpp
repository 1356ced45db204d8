#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace reprise {

/// What a field is for. The role decides where a field may be read and written:
/// `next` takes observations only, `returns` takes rewards only.
enum class Role : std::uint8_t {
  Observation,  ///< What the agent sees; every step also has a next observation.
  Column,       ///< Belongs to one step: action, log-probability, anything else.
  Reward,       ///< A float column that n-step returns are summed over.
  Discount,     ///< A float column in [0, 1] that multiplies into the discounts of returns.
  /// What a recurrent network carries into a step; an item has only the state of its first step.
  RecurrentState,
  MutableColumn,  ///< A column whose values may be replaced while the step is stored.
  Version,        ///< The version of the policy that made the step; the writer fills it in.
};

/// The properties of a role: all that buffers, batches and checkpoints ask of a field.
struct RoleTraits {
  const char* name = nullptr;  ///< The name in messages.
  bool per_item = false;       ///< Whether an item has only the value of its first step.
  bool has_next = false;  ///< Whether an episode's final row has a value; then stacks are possible.
  bool has_returns = false;     ///< Whether returns sum the field's values up.
  bool discounts = false;       ///< Whether the field discounts returns; a schema has at most one.
  bool is_scalar = false;       ///< Whether the field has to be a float without a shape.
  bool checked_finite = false;  ///< Whether `Schema::require_finite` checks the field.
  bool changes = false;         ///< Whether `ReplayBuffer::update` may replace values.
  bool stamped = false;         ///< Whether commits fill the field in; a schema has at most one.
};

namespace detail {
inline constexpr RoleTraits kRoles[] = {
    {.name = "observation", .has_next = true, .checked_finite = true},
    {.name = "column"},
    {.name = "reward", .has_returns = true, .is_scalar = true, .checked_finite = true},
    {.name = "discount", .discounts = true, .is_scalar = true},
    {.name = "recurrent state", .per_item = true},
    {.name = "mutable column", .changes = true},
    {.name = "version", .stamped = true},
};
}  // namespace detail

/// All roles, by their number.
[[nodiscard]] constexpr std::span<const RoleTraits> roles() noexcept {
  return detail::kRoles;
}
/// Traits of a role.
[[nodiscard]] constexpr const RoleTraits& traits(Role role) noexcept {
  return detail::kRoles[static_cast<std::size_t>(role)];
}

/// Element type of a field. Checkpoints store the numbers, so a new type goes to the end.
enum class DType : std::uint8_t { U8, I8, U16, I16, U32, I32, U64, I64, Bool, F32, F64, F16, BF16 };

/// An IEEE 754 binary16 by its bits, to be converted by the code that computes with it:
/// std::bit_cast makes it a `_Float16`, `__half` or `at::Half`.
struct Float16 {
  std::uint16_t bits = 0;  ///< Sign, exponent and fraction, from the highest bit on.
  bool operator==(const Float16&) const = default;
};

/// A bfloat16, the upper half of a float, by its bits.
struct BFloat16 {
  std::uint16_t bits = 0;  ///< Sign, exponent and fraction, from the highest bit on.
  bool operator==(const BFloat16&) const = default;
};

namespace detail {
template <class T>
inline constexpr int kDTypeOf = -1;
template <>
inline constexpr int kDTypeOf<std::uint8_t> = static_cast<int>(DType::U8);
template <>
inline constexpr int kDTypeOf<std::int8_t> = static_cast<int>(DType::I8);
template <>
inline constexpr int kDTypeOf<std::uint16_t> = static_cast<int>(DType::U16);
template <>
inline constexpr int kDTypeOf<std::int16_t> = static_cast<int>(DType::I16);
template <>
inline constexpr int kDTypeOf<std::uint32_t> = static_cast<int>(DType::U32);
template <>
inline constexpr int kDTypeOf<std::int32_t> = static_cast<int>(DType::I32);
template <>
inline constexpr int kDTypeOf<std::uint64_t> = static_cast<int>(DType::U64);
template <>
inline constexpr int kDTypeOf<std::int64_t> = static_cast<int>(DType::I64);
template <>
inline constexpr int kDTypeOf<bool> = static_cast<int>(DType::Bool);
template <>
inline constexpr int kDTypeOf<float> = static_cast<int>(DType::F32);
template <>
inline constexpr int kDTypeOf<double> = static_cast<int>(DType::F64);
template <>
inline constexpr int kDTypeOf<Float16> = static_cast<int>(DType::F16);
template <>
inline constexpr int kDTypeOf<BFloat16> = static_cast<int>(DType::BF16);
static_assert(sizeof(bool) == 1, "a bool field takes one byte per element");
static_assert(sizeof(Float16) == 2 && sizeof(BFloat16) == 2, "no padding");
}  // namespace detail

/// The thirteen element types of a field.
template <class T>
concept Element = detail::kDTypeOf<T>
>= 0;

/// The element type as a value.
template <Element T>
inline constexpr DType kDType = static_cast<DType>(detail::kDTypeOf<T>);

/// Bytes of one element.
[[nodiscard]] constexpr std::size_t element_bytes(DType dtype) noexcept {
  constexpr std::uint8_t kBytes[] = {1, 1, 2, 2, 4, 4, 8, 8, 1, 4, 8, 2, 2};
  return kBytes[static_cast<std::size_t>(dtype)];
}

/// Typed handle of one field, made by `Schema` and valid for every buffer of an equal schema.
///
/// Shaped is false for scalars, which `Writer` gives as a reference, and true for fields with a
/// shape, which `Writer` gives as a span. A wrong dtype, `next` of a column or `returns` of a field
/// that is no reward does not compile. A handle of another schema throws `std::invalid_argument` if
/// its number, dtype or role does not fit.
template <Element T, Role R, bool Shaped>
class Field {
 public:
  using element_type = T;                  ///< The type of its elements.
  static constexpr Role kRole = R;         ///< Purpose of the field.
  static constexpr bool kShaped = Shaped;  ///< Whether it has a shape.

  /// Number of the field in its schema, in order of declaration.
  [[nodiscard]] std::size_t index() const noexcept { return index_; }

 private:
  friend class Schema;
  explicit Field(std::size_t index) noexcept : index_(index) {}
  std::size_t index_;
};

namespace detail {
/// dtype, role and shapedness of a field in one word, so that one comparison checks a handle.
constexpr std::uint32_t signature(DType dtype, Role role, bool shaped) noexcept {
  return static_cast<std::uint32_t>(dtype) | static_cast<std::uint32_t>(role) << 8U |
         static_cast<std::uint32_t>(shaped) << 16U;
}

template <class FieldType>
inline constexpr std::uint32_t kSignature = signature(kDType<typename FieldType::element_type>,
                                                      FieldType::kRole, FieldType::kShaped);
}  // namespace detail

/// Handle of a field whose element type is known only at run time: for simulators and bindings that
/// learn their fields from a configuration. Its field is read and written as bytes, row-major, in
/// the machine's byte order, aligned for the element type. `Schema` makes such a handle, or a typed
/// handle is converted to one. A call that would not compile with a typed handle throws
/// `std::invalid_argument`.
class AnyField {
 public:
  /// Converts a typed handle.
  template <Element T, Role R, bool Shaped>
  explicit AnyField(Field<T, R, Shaped> field) noexcept
      : index_(field.index()), signature_(detail::kSignature<Field<T, R, Shaped>>) {}

  /// Number of the field in its schema, in order of declaration.
  [[nodiscard]] std::size_t index() const noexcept { return index_; }
  /// The field's dtype, role and whether it has a shape, in one word.
  [[nodiscard]] std::uint32_t signature() const noexcept { return signature_; }
  /// Element type.
  [[nodiscard]] DType dtype() const noexcept { return static_cast<DType>(signature_ & 0xffU); }
  /// Purpose of the field.
  [[nodiscard]] Role role() const noexcept { return static_cast<Role>((signature_ >> 8U) & 0xffU); }

 private:
  friend class Schema;
  AnyField(std::size_t index, std::uint32_t signature) noexcept
      : index_(index), signature_(signature) {}
  std::size_t index_;
  std::uint32_t signature_;
};

/// Handle of a scalar observation.
template <Element T>
using ScalarObservation = Field<T, Role::Observation, false>;
/// Handle of an observation with a shape.
template <Element T>
using Observation = Field<T, Role::Observation, true>;
/// Handle of a scalar per-step column.
template <Element T>
using ScalarColumn = Field<T, Role::Column, false>;
/// Handle of a per-step column with a shape.
template <Element T>
using Column = Field<T, Role::Column, true>;
using Reward = Field<float, Role::Reward, false>;      ///< Handle of a reward.
using Discount = Field<float, Role::Discount, false>;  ///< Handle of a discount.
/// Handle of the version of the policy.
using PolicyVersion = Field<std::int64_t, Role::Version, false>;
/// Handle of a scalar column whose values may be replaced.
template <Element T>
using ScalarMutableColumn = Field<T, Role::MutableColumn, false>;
/// Handle of a column with a shape whose values may be replaced.
template <Element T>
using MutableColumn = Field<T, Role::MutableColumn, true>;
/// Handle of a recurrent state.
template <Element T>
using RecurrentState = Field<T, Role::RecurrentState, true>;

/// One field of a schema.
struct FieldSpec {
  std::string name;                ///< Unique in its schema.
  Role role = Role::Column;        ///< What the field is for.
  DType dtype = DType::F32;        ///< Type of its elements.
  std::vector<std::size_t> shape;  ///< Empty for a scalar.
  std::size_t elements = 1;        ///< Product of the shape.
  std::size_t bytes = 0;           ///< elements * size of one element.

  /// Traits of its role.
  [[nodiscard]] const RoleTraits& traits() const noexcept { return reprise::traits(role); }

  friend bool operator==(const FieldSpec&, const FieldSpec&) = default;
};

/// The fields of one step. Build it once, then hand it to a `ReplayBuffer`, which copies it.
///
/// Thread safety: const methods from any thread; declare fields from one thread.
/// Errors: `std::invalid_argument` for an empty or duplicate name, a dimension of 0, a shape of
/// more than 2^48 bytes, more than 64 fields, a second discount or a second version; the schema is
/// then unchanged.
class Schema {
 public:
  /// A scalar observation.
  template <Element T>
  ScalarObservation<T> observation(std::string_view name) {
    return ScalarObservation<T>(add(name, Role::Observation, kDType<T>, sizeof(T), {}));
  }

  /// An observation of the given shape, row-major: `observation<std::uint8_t>("frame", {84, 84})`.
  template <Element T>
  Observation<T> observation(std::string_view name, std::initializer_list<std::size_t> shape) {
    return observation<T>(name, std::span(shape.begin(), shape.size()));
  }
  /// An observation with a shape that is known only at run time.
  template <Element T>
  Observation<T> observation(std::string_view name, std::span<const std::size_t> shape) {
    return Observation<T>(add(name, Role::Observation, kDType<T>, sizeof(T), shape));
  }

  /// A scalar per-step column, such as a discrete action.
  template <Element T>
  ScalarColumn<T> column(std::string_view name) {
    return ScalarColumn<T>(add(name, Role::Column, kDType<T>, sizeof(T), {}));
  }

  /// A per-step column of the given shape, such as a continuous action.
  template <Element T>
  Column<T> column(std::string_view name, std::initializer_list<std::size_t> shape) {
    return column<T>(name, std::span(shape.begin(), shape.size()));
  }
  /// A column with a shape that is known only at run time.
  template <Element T>
  Column<T> column(std::string_view name, std::span<const std::size_t> shape) {
    return Column<T>(add(name, Role::Column, kDType<T>, sizeof(T), shape));
  }

  /// A per-step column whose values `ReplayBuffer::update` may replace while the step is stored:
  /// latents that a learner writes back (Dreamer), reanalysed values (MuZero Reanalyse), recomputed
  /// rewards. The column is written with the step and read as any column. A reader gets the value
  /// that was appended or that one update wrote, never parts of two values. Such a column has no
  /// frame stack and no returns, and is never compressed.
  ///
  /// Cost: each value takes whole words of 8 bytes, each row of a buffer with such columns 4 bytes
  /// more, and reading is a load per word instead of a `memcpy`. Every save writes the chunks in
  /// which a value changed. Buffers without such columns pay nothing.
  template <Element T>
  ScalarMutableColumn<T> mutable_column(std::string_view name) {
    return ScalarMutableColumn<T>(add(name, Role::MutableColumn, kDType<T>, sizeof(T), {}));
  }
  /// A mutable column with a shape.
  template <Element T>
  MutableColumn<T> mutable_column(std::string_view name, std::initializer_list<std::size_t> shape) {
    return mutable_column<T>(name, std::span(shape.begin(), shape.size()));
  }
  /// A mutable column with a shape that is known only at run time.
  template <Element T>
  MutableColumn<T> mutable_column(std::string_view name, std::span<const std::size_t> shape) {
    return MutableColumn<T>(add(name, Role::MutableColumn, kDType<T>, sizeof(T), shape));
  }

  /// The reward of a step, a float. Several are allowed; each has its own n-step return.
  Reward reward(std::string_view name);

  /// An optional discount of the step, a float in [0, 1], which multiplies into
  /// `Batch::discounts` and into the later rewards of `Batch::returns` (the dm_env
  /// convention); with sequences without n_step a column like any other.
  Discount discount(std::string_view name);

  /// The version of the policy that made the step: a column of whole numbers that the writer fills
  /// in at each commit with what `Writer::set_version` set last, or 0 before the first call. A
  /// version that the caller has written through `now` for the step stays. Batches have the version
  /// as any column. `Options::max_staleness` needs this column. `commit` refuses a version below 0.
  PolicyVersion version(std::string_view name);

  /// The state that a recurrent network carries into a step, such as the h and c of an LSTM:
  /// `recurrent_state<float>("lstm", {2, 512})`. Only for sequences: an item keeps the state of
  /// its first step, which is in the burn-in if the window has one (the stored state of Kapturowski
  /// et al., R2D2, 2019), and no other state. A buffer of `Transitions` refuses such a field; use a
  /// `column` there, and where the states of all steps are wanted.
  ///
  /// The state is written through `now`, as the fields of the current step, at every step with
  /// which an item may begin: at positions that are multiples of the period, or with
  /// `SequenceEnd::Overlap` and `Continue` at all positions. At other steps the state may be left
  /// out, and is not kept. A batch has one state per item, [B, S].
  ///
  /// Cost: the bytes of a state for each item and 4 bytes for each row, a copy at the commit that
  /// completes the item's window, and for each writer room for the states of those of the last T
  /// steps with which an item may begin.
  template <Element T>
  RecurrentState<T> recurrent_state(std::string_view name,
                                    std::initializer_list<std::size_t> shape) {
    return recurrent_state<T>(name, std::span(shape.begin(), shape.size()));
  }
  /// A recurrent state with a shape that is known only at run time.
  template <Element T>
  RecurrentState<T> recurrent_state(std::string_view name, std::span<const std::size_t> shape) {
    return RecurrentState<T>(add(name, Role::RecurrentState, kDType<T>, sizeof(T), shape));
  }

  /// Whether commits refuse NaN and infinite values in observations and rewards of float or double:
  /// `std::invalid_argument` names field, step and value. The step is not taken; the caller can
  /// correct the step and commit it. `Writer::add_transition` and `VectorWriter` refuse such values
  /// before they change anything. Off by default. Costs a pass over these fields per step, about
  /// 0.05 ns per byte and 5 ns, and nothing while the check is off. Schemas that differ only in
  /// this check are equal; a checkpoint keeps it.
  void require_finite(bool on = true) noexcept { finite_ = on; }
  /// See `require_finite`.
  [[nodiscard]] bool requires_finite() const noexcept { return finite_; }

  /// Keeps an observation compressed in memory, losslessly, for images that resemble each other:
  /// each image is compressed by LZ4 against the first image of its chunk, so any window can be
  /// read by itself. A frame of an Atari game (84 x 84) takes a fifth to a thirtieth. An image that
  /// would not get smaller is kept as it is and costs 8 bytes more. Batches, handles and everything
  /// else stay as they are; schemas that differ only in compression are equal. But a buffer whose
  /// schema compresses other fields cannot be restored from a checkpoint of this buffer. `Stats`
  /// has the sizes with and without compression.
  ///
  /// Cost: `commit` compresses the next observation, 1 to 5 us for 7 KB, and at the beginning of a
  /// chunk the observations that the writer repeats from its last chunk; sampling decompresses each
  /// frame of a window once, 0.3 to 1 us. A writer takes 16 KiB more memory. In a `MappedFile` the
  /// disk space is that of uncompressed observations, but only compressed bytes are read and
  /// written.
  ///
  /// Errors: `std::invalid_argument` for a field of another schema, a field that is no observation,
  /// and one of less than 512 bytes.
  void compress(AnyField field);
  /// Compresses by a typed handle.
  template <Element T>
  void compress(Observation<T> field) {
    compress(AnyField(field));
  }
  /// Whether the field of this number is compressed.
  [[nodiscard]] bool compresses(std::size_t field) const noexcept {
    return (compressed_ >> field & 1U) != 0;
  }

  /// Declares a field whose role and element type are known only at run time. Also throws
  /// `std::invalid_argument` for a reward or a discount that is no scalar float, and a version that
  /// is no scalar I64.
  AnyField declare(std::string_view name, Role role, DType dtype,
                   std::span<const std::size_t> shape = {});
  /// The field of this name, if there is one.
  [[nodiscard]] std::optional<AnyField> find(std::string_view name) const noexcept;

  /// All fields, in order of declaration.
  [[nodiscard]] std::span<const FieldSpec> fields() const noexcept { return fields_; }

  /// Bytes of one step's fields. Padding, the buffer's bookkeeping, and recurrent states, which are
  /// kept for each item, are not counted.
  [[nodiscard]] std::size_t step_bytes() const noexcept;

  friend bool operator==(const Schema& a, const Schema& b) { return a.fields_ == b.fields_; }

 private:
  std::size_t add(std::string_view name, Role role, DType dtype, std::size_t element_bytes,
                  std::span<const std::size_t> shape);

  std::vector<FieldSpec> fields_;
  std::uint64_t compressed_ = 0;  ///< Bit i: field i is compressed.
  bool finite_ = false;
};

}  // namespace reprise
