#include <reprise/hindsight.hpp>

#include "buffer.hpp"

namespace reprise::python {

template <>
inline constexpr Words words_of<HindsightGoal>{"_Goal", {"future", "final", "episode"}};
template <>
inline constexpr auto members_of<HindsightOptions> =
    members<&HindsightOptions::goal, &HindsightOptions::share, &HindsightOptions::seed>;

namespace {

constexpr const char* kDoc =
    R"(Gives items goals that their episode did achieve; made by ReplayBuffer.hindsight.

Hindsight experience replay (Andrychowicz et al., 2017): rewards under the new goals are the
caller's to compute, over the whole batch. It reaches the steps of the episode that are in the
buffer, and the observation after each. An episode is followed to the first of its chunks
(chunk_steps) that has left. One thread at a time may use it (RuntimeError otherwise); any number of
them beside writers, samplers and updates.)";

constexpr const char* kRelabel =
    R"(Picks, for a share of the items, another observation of their episode, and writes what it achieved
over their goals, in place.

keys: int64 [n], of Batch.item_keys.
goals: writable, contiguous array [n, *shape] of the achieved field's dtype, such as the batch's own
  column of goals; or a tensor of torch on the CPU, such as that of batch.torch().
Returns how many steps each new goal is after the item's step, int32 [n]: at least 1, with 'episode'
also below 0. An item that was not picked, or is no longer there, keeps its goal and has 0.
TypeError and ValueError for arrays that do not fit, before anything is changed; ValueError for a
key of another buffer; Closed after `restore` of the buffer: make another one.)";

constexpr const char* kMake =
    R"(What gives items goals that their episodes achieved (HER): see Hindsight.

It reaches the steps of the episode that are in the buffer.

achieved: the observation that says what a step achieved; with frame stacks its newest frame.
goal: 'future', one of the later observations of the item's episode, each as likely as the others;
  'final', the last one; 'episode', any but that of the item's own step.
share: of items that get another goal, 0 to 1. k replays with another goal for each with its own,
  in the paper's words, are k / (k + 1).
seed: start of its own random numbers.
ValueError for another field, a share out of range, and a window other than Transitions of n_step 1:
the return of several steps would have to be made anew.)";

/// An array over the memory of an array or tensor; None where numpy would have to copy.
nb::object array_over(nb::handle given) {
  if (is_array(given)) {
    return nb::borrow(given);
  }
  if (!nb::hasattr(given, "data_ptr")) {
    return {};
  }
  nb::object made = array_of(given, "goals");
  const auto data_pointer = nb::cast<std::uintptr_t>(given.attr("data_ptr")());
  const Array read(made);
  const bool shares = reinterpret_cast<std::uintptr_t>(read.data()) == data_pointer;
  return shares || read.size() == 0 ? made : nb::object();
}

/// reprise.Hindsight: gives items goals of their own episode.
class HindsightObject {
 public:
  HindsightObject(std::shared_ptr<SharedBuffer> buffer, const FieldInfo& achieved,
                  const HindsightOptions& options);

  [[nodiscard]] Entered enter(const char* call) { return {in_use_, "Hindsight", *buffer_, call}; }
  nb::object relabel(CallName call, const Keys& keys, ArrayLike goals);

 private:
  std::shared_ptr<SharedBuffer> buffer_;
  std::vector<std::size_t> shape_;  ///< The shape of one goal.
  DType type_;
  Hindsight hindsight_;
  /// `SharedBuffer::restore_count` when `hindsight_` was made, which can only read the buffer of
  /// then.
  unsigned restore_count_;
  bool in_use_ = false;
};

HindsightObject::HindsightObject(std::shared_ptr<SharedBuffer> buffer, const FieldInfo& achieved,
                                 const HindsightOptions& options)
    : buffer_(std::move(buffer)),
      shape_(achieved.spec.shape),
      type_(achieved.spec.dtype),
      hindsight_(buffer_->buffer.hindsight(achieved.field, options)),
      restore_count_(buffer_->restore_count) {}

nb::object HindsightObject::relabel(CallName call, const Keys& given_keys, ArrayLike given) {
  if (restore_count_ != buffer_->restore_count) {
    throw Closed(std::string(call.text) +
                 ": the buffer was restored since; make another Hindsight");
  }
  const std::vector<ItemKey> keys = copy_of(given_keys);
  std::vector<std::size_t> shape = shape_;
  shape.insert(shape.begin(), keys.size());
  const ArgumentName what(call.text, "goals");
  const auto refuse = [&](const std::string& instead) {
    fail(what, ": expected a writable, contiguous array, ", described(name_of(type_), shape),
         "; given ", instead);
  };
  const nb::object array = array_over(given);
  if (!array.is_valid()) {
    fail<WrongKind>(what, ": expected an array or a tensor on the CPU, ",
                    described(name_of(type_), shape), "; given ", python_type_name(given));
  }
  const Array goals(array);
  if (!goals.is(type_) || !std::ranges::equal(goals.shape(), shape)) {
    refuse(goals.described());
  }
  if (!goals.plain() || !goals.writable()) {
    refuse(goals.plain() ? "one that is read only" : "one that is not contiguous");
  }
  nb::object made = empty_array(DType::I32, {{keys.size()}});
  // Both are written without the GIL: `made` is not shared yet, and callers leave `goals` alone.
  const std::span<std::byte> bytes(goals.data(), goals.size() * element_bytes(type_));
  const std::span<std::int32_t> distances(reinterpret_cast<std::int32_t*>(Array(made).data()),
                                          keys.size());
  without_gil([&] { hindsight_.relabel(keys, bytes, type_, distances); });
  return made;
}

nb::object make_hindsight(BufferObject& self, CallName call, const std::string& achieved,
                          const HindsightOptions& options) {
  const FieldTable& table = self.shared->table;
  for (const FieldInfo& field : table.fields()) {
    if (field.spec.name == achieved) {
      return make_object<HindsightObject>(self.shared, field, options);
    }
  }
  fail(ArgumentName(call.text, "achieved"), " is '", achieved,
       "'; allowed: ", table.names(table.observations()));
}

}  // namespace

void bind_hindsight(nb::module_& module, Type<BufferObject>& type) {
  Type<HindsightObject>("Hindsight", kDoc)
      .method<&HindsightObject::relabel>("relabel", "NDArray[np.int32]", kRelabel, arg("keys"),
                                         arg("goals"))
      .add(module);
  type.method<&make_hindsight>("hindsight", "Hindsight", kMake, arg("achieved"));
}

}  // namespace reprise::python
