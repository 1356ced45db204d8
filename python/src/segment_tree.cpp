// reprise.SegmentTree: the segment tree of <reprise/segment_tree.hpp> over numpy arrays.
//
// Calls of several threads take turns, those on large arrays or ranges without the GIL.
#include <reprise/segment_tree.hpp>

#include "binding/type.hpp"
#include "fields/fields.hpp"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <variant>

namespace reprise::python {
namespace {

/// Lets the calls of one object run one at a time: a call has its turn while it holds `mutex_`.
/// Long calls run without the GIL. There is no deadlock, because a thread never asks for the GIL in
/// its turn.
class Turns {
 public:
  /// Runs the work, which must not use Python. RuntimeError in a child that was forked during the
  /// turn of another thread, which does not end in the child.
  template <class Work>
  auto run(bool is_long, const Work& work) {
    return is_long ? run_without_gil(work) : run_short(work);
  }
  template <class Work>
  auto run_short(const Work& work) {
    {
      const std::unique_lock turn(mutex_, std::try_to_lock);
      if (turn) {
        return work();
      }
    }
    return run_without_gil(work);
  }

 private:
  template <class Work>
  auto run_without_gil(const Work& work) {
    const GilRelease released;
    const std::unique_lock turn = lock();
    return work();
  }
  std::unique_lock<std::timed_mutex> lock() {
    std::unique_lock turn(mutex_, std::defer_lock);
    while (!turn.try_lock_for(kForkCheckInterval)) {
      // Relaxed: a child gets the value at the fork, and has a single thread then.
      if (holder_.load(std::memory_order_relaxed) != ::getpid()) {
        throw std::logic_error("the process was forked while a call of this object was under way");
      }
    }
    holder_.store(::getpid(), std::memory_order_relaxed);
    return turn;
  }

  static constexpr std::chrono::milliseconds kForkCheckInterval{50};
  std::timed_mutex mutex_;
  /// The process that last took the turn without the GIL. Python forks only while it holds the GIL,
  /// so turns taken with the GIL need no record.
  std::atomic<::pid_t> holder_{::getpid()};
};

struct AnyTree {
  std::variant<SegmentTree<float>, SegmentTree<double>> tree;
  Turns turns;

  template <class Call>
  decltype(auto) visit(const Call& call) {
    return std::visit(call, tree);
  }
};

void make(AnyTree* place, std::size_t capacity, Given<"DTypeLike"> dtype) {
  const std::string name = dtype.is_valid() ? dtype_name(dtype) : "float32";
  if (name == "float32") {
    new (place) AnyTree{SegmentTree<float>(capacity), {}};
  } else if (name == "float64") {
    new (place) AnyTree{SegmentTree<double>(capacity), {}};
  } else {
    fail<WrongKind>("SegmentTree: dtype is ", name, "; allowed: float32 and float64");
  }
}

/// The numbers of an argument. They are copied in the call's turn, because other code may change
/// the array, or the array may be a view of the tree's leaves. Refuses what numpy would convert
/// with loss of meaning: text, dates, objects, complex numbers.
template <class T>
class NumberArgument {
 public:
  NumberArgument(nb::handle given, ArgumentName argument) {
    constexpr bool kIntegers = std::is_integral_v<T>;
    const nb::object array = array_of(given, argument);
    const Array read(array);
    // numpy gives an empty list the type float64.
    if (read.size() != 0 &&
        std::string_view(kIntegers ? "iu" : "fiub").find(read.kind()) == std::string_view::npos) {
      fail<WrongKind>(argument, " are of dtype ", str_of(read.dtype()),
                      "; allowed: ", kIntegers ? "integers" : "real numbers");
    }
    array_ = array_from(array, kDType<T>);
    if (!array_) {
      throw nb::python_error();
    }
    const Array plain(array_);
    shape.assign(plain.shape().begin(), plain.shape().end());
    given_ = {reinterpret_cast<const T*>(plain.data()), plain.size()};
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return given_.size_bytes(); }
  [[nodiscard]] std::size_t size() const noexcept { return given_.size(); }
  [[nodiscard]] bool is_scalar() const noexcept { return shape.empty(); }
  /// A copy of the numbers. Call it once, in the call's turn.
  std::span<const T> read() {
    copy_.assign(given_.begin(), given_.end());
    return copy_;
  }
  /// The only number, n times.
  std::span<const T> repeat(std::size_t n) {
    copy_.assign(n, given_.front());
    return copy_;
  }

  std::vector<std::size_t> shape;

 private:
  nb::object array_;
  std::span<const T> given_;
  std::vector<T> copy_;
};

/// Indices of leaves as unsigned numbers; ValueError for a negative one.
std::span<const std::size_t> as_sizes(std::span<const std::int64_t> places) {
  const auto wrong =
      std::find_if(places.begin(), places.end(), [](std::int64_t x) { return x < 0; });
  if (wrong != places.end()) {
    fail("SegmentTree: leaves[", wrong - places.begin(), "] = ", *wrong, "; allowed: at least 0");
  }
  // Reading a signed integer as the unsigned type of the same width is allowed.
  return {reinterpret_cast<const std::size_t*>(places.data()), places.size()};
}

/// Whether a call on this range runs without the GIL.
bool is_large(std::size_t first, std::size_t last) {
  return last > first && last - first > kCopyWithGil / sizeof(float);
}

void assign(AnyTree& any, CallName call, ArrayLike leaves, ArrayLike given) {
  any.visit([&]<class Leaf>(SegmentTree<Leaf>& tree) {
    NumberArgument<std::int64_t> places(leaves, {call.text, "leaves"});
    NumberArgument<Leaf> values(given, {call.text, "values"});
    any.turns.run(places.bytes() + values.bytes() > kCopyWithGil, [&] {
      const std::span<const std::size_t> to = as_sizes(places.read());
      tree.assign(
          to, values.is_scalar() && !places.is_scalar() ? values.repeat(to.size()) : values.read());
    });
  });
}

void assign_range(AnyTree& any, CallName call, std::size_t first, ArrayLike given) {
  any.visit([&]<class Leaf>(SegmentTree<Leaf>& tree) {
    NumberArgument<Leaf> values(given, {call.text, "values"});
    any.turns.run(values.bytes() > kCopyWithGil, [&] { tree.assign_range(first, values.read()); });
  });
}

/// The end of a range of leaves; empty: the capacity.
using Last = std::optional<std::size_t>;

/// Runs kChange, such as kAdd, on a range of leaves with a number.
template <auto kChange>
void change(AnyTree& any, double value, std::size_t first, Last end) {
  any.visit([&]<class Leaf>(SegmentTree<Leaf>& tree) {
    const std::size_t last = end.value_or(tree.capacity());
    any.turns.run(is_large(first, last),
                  [&] { kChange(tree, first, last, static_cast<Leaf>(value)); });
  });
}
constexpr auto kFill = [](auto& tree, auto first, auto last, auto x) { tree.fill(first, last, x); };
constexpr auto kScale = [](auto& tree, auto first, auto last, auto x) {
  tree.scale(first, last, x);
};
constexpr auto kAdd = [](auto& tree, auto first, auto last, auto x) { tree.add(first, last, x); };

/// The result of kQuery, such as kSum, for a range of leaves.
template <auto kQuery>
double query(AnyTree& any, std::size_t first, Last end) {
  return any.visit([&](auto& tree) {
    const std::size_t last = end.value_or(tree.capacity());
    return any.turns.run_short([&] { return double{kQuery(tree, first, last)}; });
  });
}
constexpr auto kSum = [](auto& tree, auto first, auto last) { return tree.sum(first, last); };
constexpr auto kMin = [](auto& tree, auto first, auto last) { return tree.min(first, last); };
constexpr auto kMax = [](auto& tree, auto first, auto last) { return tree.max(first, last); };

double leaf(AnyTree& any, std::size_t at) {
  return any.visit(
      [&](auto& tree) { return any.turns.run_short([&] { return double{tree.leaf(at)}; }); });
}

nb::object find(AnyTree& any, CallName call, ArrayLike target) {
  NumberArgument<double> targets(target, {call.text, "target"});
  if (targets.is_scalar()) {
    return nb::int_(any.visit([&](auto& tree) {
      return any.turns.run_short([&] { return tree.find_prefix_sum(targets.read().front()); });
    }));
  }
  nb::object leaves = empty_array(DType::I64, targets.shape);
  const std::span<std::size_t> to(reinterpret_cast<std::size_t*>(Array(leaves).data()),
                                  targets.size());
  any.visit([&](auto& tree) {
    any.turns.run(targets.bytes() > kCopyWithGil,
                  [&] { tree.find_prefix_sum(targets.read(), to); });
  });
  return leaves;
}

DType dtype(AnyTree& any) {
  return any.tree.index() == 0 ? DType::F32 : DType::F64;
}

nb::object dtype_object(AnyTree& any) {
  return dtype_of(dtype(any));
}

nb::object leaves(nb::handle self) {
  auto& any = self_of<AnyTree>(self.ptr());
  return any.visit([&](auto& tree) {
    return readonly_view_of(dtype(any), {{tree.capacity()}}, tree.leaves().data(), self);
  });
}

Py_ssize_t length(AnyTree& any) {
  return any.visit([](auto& tree) { return static_cast<Py_ssize_t>(tree.capacity()); });
}

constexpr const char* kDoc =
    R"(A segment tree: sums, minima and maxima over any range of its leaves, and
the search by prefix sums that draws in proportion (Schaul et al., 2016, appendix B.2.1).

Leaves are 0 at first, float32 or float64, finite; those of float64 at most 2^980 in magnitude.
Denormal numbers, below 2^-126 (2^-1022 of float64) in magnitude, are stored as 0.
A range [first, last) ends before last; None is the capacity. Sums are doubles, made from the
leaves: there is no drift. ValueError names argument, place, value and what is allowed; a call
that raises has changed nothing. Threads take turns; the GIL is released by calls on more than 512
bytes of arrays or leaves.)";

}  // namespace

void bind_segment_tree(nb::module_& module) {
  Type<AnyTree>("SegmentTree", kDoc)
      .constructor<&make>(
          R"(capacity: leaves, 1 to 2^40, not necessarily a power of two; all are 0 at first.
dtype: of the leaves, and of what calls store in them: float32, 4 bytes a leaf, or float64, 8.
  Sums are doubles in both.)",
          arg("capacity"), arg("dtype", "'float32'"))
      .special<&length>(Py_mp_length, "__len__(self) -> int")
      .property<&leaves>(
          "leaves", "NDArray[Any]",
          "All leaves in order, [capacity] of the tree's dtype: a read-only view. While a call in\n"
          "another thread changes many leaves, the view may show only some of them changed.")
      .property<&dtype_object>("dtype", "np.dtype[Any]",
                               "The dtype of the leaves: float32 or float64.")
      .method<&leaf>("leaf", "One leaf, 0 to capacity - 1, as a float.", arg("leaf"))
      .method<&query<kSum>>("sum", "The sum of a range, a float; 0 if it is empty.",
                            arg("first", 0U), arg("last", std::nullopt))
      .method<&query<kMin>>("min", "The minimum of a range, a float; infinity if it is empty.",
                            arg("first", 0U), arg("last", std::nullopt))
      .method<&query<kMax>>("max", "The maximum of a range, a float; -infinity if it is empty.",
                            arg("first", 0U), arg("last", std::nullopt))
      .method<&assign>(
          "assign",
          R"(Sets leaf leaves[i] to values[i], or all these leaves to one value; the last of
duplicates wins. Each ancestor is computed once.

leaves: integers [n], 0 to capacity - 1, or one integer.
values: numbers [n], or one number; converted to the dtype of the tree.)",
          arg("leaves"), arg("values"))
      .method<&assign_range>(
          "assign_range",
          "Sets the leaves from `first` on to the values: numbers [n], converted to the dtype of "
          "the tree.",
          arg("first"), arg("values"))
      .method<&change<kFill>>("fill", "Sets each leaf of a range to the value.", arg("value"),
                              arg("first", 0U), arg("last", std::nullopt))
      .method<&change<kScale>>(
          "scale", "Multiplies each leaf of a range; results too small for the dtype become 0.",
          arg("factor"), arg("first", 0U), arg("last", std::nullopt))
      .method<&change<kAdd>>("add", "Adds the value to each leaf of a range.", arg("value"),
                             arg("first", 0U), arg("last", std::nullopt))
      .method<&find>(
          "find_prefix_sum", "Any",
          R"(The leaf on which a target in [0, sum()] falls: the sum of the leaves before this leaf
is at most the target, and the sum up to and with this leaf is above. For a number returns an int;
for an array of numbers, of any shape, an int64 array of that shape.)",
          arg("target"))
      .add(module);
}

}  // namespace reprise::python
