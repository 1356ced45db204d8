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
caller's to compute, over the whole batch. Goals come from the steps of the episode that are in the
buffer, and from the observation after each; an episode is followed up to the first of its chunks
(chunk_steps) that has left. One thread at a time may use a Hindsight (RuntimeError otherwise); any
number of them work beside writers, samplers and updates.)";

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
    R"(A Hindsight, which gives items goals that their episodes achieved (HER).

achieved: the observation that says what a step achieved; with frame stacks its newest frame.
goal: 'future', one of the later observations of the item's episode, each as likely as the others;
  'final', the last one; 'episode', any but that of the item's own step.
share: of the items, 0 to 1, that get another goal. The paper's k replays with another goal for each
  replay with its own goal are a share of k / (k + 1).
seed: start of its own random numbers.
ValueError for a field that is no observation, a share out of range, and a window other than
Transitions of n_step 1: the return of several steps would have to be made anew.)";

/// An array over the memory of an array or tensor; null where numpy would have to copy.
nb::object array_over(nb::handle given) {
  if (is_array(given)) {
    return nb::borrow(given);
  }
  if (!nb::hasattr(given, "data_ptr")) {
    return {};
  }
  nb::object array = array_of(given, "goals");
  const auto data_pointer = nb::cast<std::uintptr_t>(given.attr("data_ptr")());
  const Array read(array);
  const bool shares = reinterpret_cast<std::uintptr_t>(read.data()) == data_pointer;
  return shares || read.size() == 0 ? array : nb::object();
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
  unsigned restore_count_;  ///< `SharedBuffer::restore_count` when `hindsight_` was made.
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
  const ArgumentName argument(call.text, "goals");
  const auto refuse = [&](const std::string& description) {
    fail(argument, ": expected a writable, contiguous array, ", described(name_of(type_), shape),
         "; given ", description);
  };
  const nb::object array = array_over(given);
  if (!array.is_valid()) {
    fail<WrongKind>(argument, ": expected an array or a tensor on the CPU, ",
                    described(name_of(type_), shape), "; given ", python_type_name(given));
  }
  const Array goals(array);
  if (!goals.is(type_) || !std::ranges::equal(goals.shape(), shape)) {
    refuse(goals.described());
  }
  if (!goals.plain() || !goals.writable()) {
    refuse(goals.plain() ? "one that is read only" : "one that is not contiguous");
  }
  nb::object steps_ahead = empty_array(DType::I32, {{keys.size()}});
  // Both arrays are written without the GIL: nobody else has `steps_ahead` yet, and callers do not
  // use `goals` meanwhile.
  const std::span<std::byte> bytes(goals.data(), goals.size() * element_bytes(type_));
  const std::span<std::int32_t> distances(
      reinterpret_cast<std::int32_t*>(Array(steps_ahead).data()), keys.size());
  without_gil([&] { hindsight_.relabel(keys, bytes, type_, distances); });
  return steps_ahead;
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
       "'; allowed: ", table.names(table.observation_mask()));
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
