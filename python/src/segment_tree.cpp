// reprise.SegmentTree: the public segment tree, <reprise/segment_tree.hpp>, over numpy arrays.
//
// Calls of several threads take turns. Calls on large arrays or ranges run without the GIL.
#include "segment_tree.hpp"

#include <reprise/segment_tree.hpp>

#include "numbers.hpp"
#include "step_values.hpp"
#include "turns.hpp"
#include "values.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace reprise::python {
namespace {

constexpr int kDense =
    py::array::c_style | py::array::forcecast | py::detail::npy_api::NPY_ARRAY_ALIGNED_;

/// The variant is in a struct, because pybind11 has a conversion of its own for a bare one.
struct AnyTree {
  std::variant<SegmentTree<float>, SegmentTree<double>> tree;
  std::unique_ptr<Turns> turns = std::make_unique<Turns>();

  template <class Call>
  decltype(auto) visit(const Call& call) {
    return std::visit(call, tree);
  }
  template <class Call>
  // NOLINTNEXTLINE(modernize-use-nodiscard): some calls return nothing.
  decltype(auto) visit(const Call& call) const {
    return std::visit(call, tree);
  }
};

std::string name_of(const py::dtype& dtype) {
  return py::str(static_cast<const py::object&>(dtype));
}

using Capacity = Checked<std::size_t, "SegmentTree: capacity">;
using Place = Checked<std::size_t, "SegmentTree: leaf">;
using First = Checked<std::size_t, "SegmentTree: first">;
using Last = std::optional<Checked<std::size_t, "SegmentTree: last">>;
using Real = Checked<double, "SegmentTree: value">;
using Factor = Checked<double, "SegmentTree: factor">;

py::dtype dtype_from(const py::object& given) {
  try {
    return py::dtype::from_args(given);
  } catch (const py::error_already_set& error) {
    check_kind(!error.matches(PyExc_TypeError), given, "SegmentTree: dtype", "float32 and float64");
    throw;
  }
}

AnyTree make_tree(Capacity leaves, const py::object& dtype) {
  const py::dtype wanted = dtype_from(dtype);
  if (wanted.equal(py::dtype::of<float>())) {
    return {.tree = SegmentTree<float>(leaves)};
  }
  if (wanted.equal(py::dtype::of<double>())) {
    return {.tree = SegmentTree<double>(leaves)};
  }
  throw py::type_error("SegmentTree: dtype is " + name_of(wanted) +
                       "; allowed: float32 and float64");
}

/// Refuses values that lose their meaning when numpy converts them: text, dates, objects, complex
/// numbers.
py::array numbers(const char* name, const py::object& values, const char* kinds) {
  const py::array array = array_of(values.ptr(), "SegmentTree: " + std::string(name));
  // An empty list is an array of floats.
  if (array.size() != 0 && std::string(kinds).find(array.dtype().kind()) == std::string::npos) {
    throw py::type_error(
        "SegmentTree: " + std::string(name) + " are of dtype " + name_of(array.dtype()) +
        "; allowed: " +
        (std::string(kinds).find('f') == std::string::npos ? "integers" : "real numbers"));
  }
  return array;
}

template <class Leaf>
py::array_t<Leaf, kDense> values_of(const py::object& values) {
  return py::array_t<Leaf, kDense>(numbers("values", values, "fiub"));
}

/// The contents of an array, to be read without the GIL. They are a copy if other code has the
/// array too, so that nobody changes them while they are checked and used.
template <class T>
class OwnNumbers {
 public:
  /// Needs the GIL. The array has to outlive this object.
  explicit OwnNumbers(const py::array_t<T, kDense>& array)
      : given_(array.data(), static_cast<std::size_t>(array.size())),
        shared_(Py_REFCNT(array.ptr()) != 1 || !array.owndata()) {}

  [[nodiscard]] std::size_t bytes() const noexcept { return given_.size_bytes(); }
  [[nodiscard]] std::size_t size() const noexcept { return given_.size(); }
  /// Call it once, while the thread has the tree's turn, because the array may be a view of its
  /// leaves.
  std::span<const T> read() {
    if (!shared_) {
      return given_;
    }
    copy_.assign(given_.begin(), given_.end());
    return copy_;
  }
  /// n copies of the only element.
  std::span<const T> repeat(std::size_t n) {
    copy_.assign(n, given_.front());
    return copy_;
  }

 private:
  std::span<const T> given_;
  bool shared_;
  std::vector<T> copy_;
};

/// Refuses negative places of leaves.
std::span<const std::size_t> as_sizes(std::span<const std::int64_t> places) {
  const auto wrong =
      std::find_if(places.begin(), places.end(), [](std::int64_t x) { return x < 0; });
  if (wrong != places.end()) {
    throw std::invalid_argument("SegmentTree: leaves[" + std::to_string(wrong - places.begin()) +
                                "] = " + std::to_string(*wrong) + "; allowed: at least 0");
  }
  static_assert(std::is_same_v<std::make_unsigned_t<std::int64_t>, std::size_t>);
  // The unsigned type of the same width may be read in place of the signed one.
  return {reinterpret_cast<const std::size_t*>(places.data()), places.size()};
}

struct Range {
  std::size_t first;
  std::size_t last;
};

template <class Leaf>
Range range_of(const SegmentTree<Leaf>& tree, First first, const Last& last) {
  return {first, last ? last->value : tree.capacity()};
}

template <class Leaf>
[[nodiscard]] bool is_large(Range range) noexcept {
  return range.last > range.first && (range.last - range.first) * sizeof(Leaf) > kCopyWithGil;
}

template <class Leaf>
void assign(Turns& turns, SegmentTree<Leaf>& tree, const py::object& leaves,
            const py::object& values) {
  const py::array_t<std::int64_t, kDense> place_array(numbers("leaves", leaves, "iu"));
  const auto weight_array = values_of<Leaf>(values);
  OwnNumbers<std::int64_t> places(place_array);
  OwnNumbers<Leaf> weights(weight_array);
  const bool one_for_all = weight_array.ndim() == 0 && place_array.ndim() != 0;
  turns.take(places.bytes() + weights.bytes() > kCopyWithGil, [&] {
    const std::span<const std::size_t> to = as_sizes(places.read());
    tree.assign(to, one_for_all ? weights.repeat(to.size()) : weights.read());
  });
}

template <class Leaf>
void assign_range(Turns& turns, SegmentTree<Leaf>& tree, First first, const py::object& values) {
  const auto weight_array = values_of<Leaf>(values);
  OwnNumbers<Leaf> weights(weight_array);
  turns.take(weights.bytes() > kCopyWithGil, [&] { tree.assign_range(first, weights.read()); });
}

template <class Leaf>
py::object find(Turns& turns, const SegmentTree<Leaf>& tree, const py::object& target) {
  const py::array_t<double, kDense> targets(numbers("targets", target, "fiub"));
  if (targets.ndim() == 0) {
    const double at = *targets.data();
    return py::int_(turns.take(false, [&] { return tree.find_prefix_sum(at); }));
  }
  py::array_t<std::int64_t> found(
      py::array::ShapeContainer(targets.shape(), targets.shape() + targets.ndim()));
  const std::span<std::size_t> to(reinterpret_cast<std::size_t*>(found.mutable_data()),
                                  static_cast<std::size_t>(found.size()));
  OwnNumbers<double> wanted(targets);
  turns.take(wanted.bytes() > kCopyWithGil, [&] { tree.find_prefix_sum(wanted.read(), to); });
  return found;
}

/// A read-only view of the leaves, which keeps the tree alive.
py::array leaves_of(const py::object& self) {
  return self.cast<const AnyTree&>().visit([&](const auto& tree) {
    const auto leaves = tree.leaves();
    py::array view(py::dtype::of<typename decltype(leaves)::value_type>(),
                   {static_cast<py::ssize_t>(leaves.size())}, {}, leaves.data(), self);
    view.attr("setflags")(py::arg("write") = false);
    return view;
  });
}

void bind_changes(py::class_<AnyTree>& type) {
  type.def(
          "assign",
          [](AnyTree& any, const py::object& leaves, const py::object& values) {
            any.visit([&](auto& tree) { assign(*any.turns, tree, leaves, values); });
          },
          py::arg("leaves"), py::arg("values"),
          R"(assign(self, /, leaves, values)
--

values[i] to leaves[i], or one value to all of them; the last of duplicates wins. Each ancestor is
computed once.

leaves: integers [n], 0 to capacity - 1, or one.
values: numbers [n], or one; converted to the dtype of the tree.)")
      .def(
          "assign_range",
          [](AnyTree& any, First first, const py::object& values) {
            any.visit([&](auto& tree) { assign_range(*any.turns, tree, first, values); });
          },
          py::arg("first"), py::arg("values"),
          R"(assign_range(self, /, first, values)
--

The values to the leaves from `first` on: numbers [n], converted to the dtype of the tree.)")
      .def(
          "fill",
          [](AnyTree& any, Real value, First first, const Last& last) {
            any.visit([&]<class Leaf>(SegmentTree<Leaf>& tree) {
              const Range range = range_of(tree, first, last);
              any.turns->take(is_large<Leaf>(range), [&] {
                tree.fill(range.first, range.last, static_cast<Leaf>(value.value));
              });
            });
          },
          py::arg("value"), py::arg("first") = 0, py::arg("last") = py::none(),
          "fill(self, /, value, first=0, last=None)\n--\n\nThe value to each leaf.")
      .def(
          "scale",
          [](AnyTree& any, Factor factor, First first, const Last& last) {
            any.visit([&]<class Leaf>(SegmentTree<Leaf>& tree) {
              const Range range = range_of(tree, first, last);
              any.turns->take(is_large<Leaf>(range), [&] {
                tree.scale(range.first, range.last, static_cast<Leaf>(factor.value));
              });
            });
          },
          py::arg("factor"), py::arg("first") = 0, py::arg("last") = py::none(),
          "scale(self, /, factor, first=0, last=None)\n--\n\nEach leaf times the factor; what is "
          "too small becomes 0.")
      .def(
          "add",
          [](AnyTree& any, Real value, First first, const Last& last) {
            any.visit([&]<class Leaf>(SegmentTree<Leaf>& tree) {
              const Range range = range_of(tree, first, last);
              any.turns->take(is_large<Leaf>(range), [&] {
                tree.add(range.first, range.last, static_cast<Leaf>(value.value));
              });
            });
          },
          py::arg("value"), py::arg("first") = 0, py::arg("last") = py::none(),
          "add(self, /, value, first=0, last=None)\n--\n\nEach leaf plus the value.");
}

void bind_queries(py::class_<AnyTree>& type) {
  type.def(
          "leaf",
          [](const AnyTree& any, Place leaf) {
            return any.visit([&](const auto& tree) {
              return any.turns->take(false, [&] { return double{tree.leaf(leaf)}; });
            });
          },
          py::arg("leaf"), "leaf(self, /, leaf)\n--\n\nOne leaf, 0 to capacity - 1, as a float.")
      .def(
          "sum",
          [](const AnyTree& any, First first, const Last& last) {
            return any.visit([&](const auto& tree) {
              const Range range = range_of(tree, first, last);
              return any.turns->take(false, [&] { return tree.sum(range.first, range.last); });
            });
          },
          py::arg("first") = 0, py::arg("last") = py::none(),
          "sum(self, /, first=0, last=None)\n--\n\nOf a range, a float; 0 without leaves.")
      .def(
          "min",
          [](const AnyTree& any, First first, const Last& last) {
            return any.visit([&](const auto& tree) {
              const Range range = range_of(tree, first, last);
              return any.turns->take(false,
                                     [&] { return double{tree.min(range.first, range.last)}; });
            });
          },
          py::arg("first") = 0, py::arg("last") = py::none(),
          "min(self, /, first=0, last=None)\n--\n\nOf a range, a float; infinity without leaves.")
      .def(
          "max",
          [](const AnyTree& any, First first, const Last& last) {
            return any.visit([&](const auto& tree) {
              const Range range = range_of(tree, first, last);
              return any.turns->take(false,
                                     [&] { return double{tree.max(range.first, range.last)}; });
            });
          },
          py::arg("first") = 0, py::arg("last") = py::none(),
          "max(self, /, first=0, last=None)\n--\n\nOf a range, a float; -infinity without leaves.")
      .def(
          "find_prefix_sum",
          [](const AnyTree& any, const py::object& target) {
            return any.visit([&](const auto& tree) { return find(*any.turns, tree, target); });
          },
          py::arg("target"),
          R"(find_prefix_sum(self, /, target)
--

The leaf on which a target in [0, sum()] falls: the sum of the leaves before it is at most the
target, and with it above. A number gives an int; an array of numbers, of any shape, an int64 array
of that shape.)");
}

}  // namespace

void bind_segment_tree(py::module_& module) {
  py::class_<AnyTree> type(
      module, "SegmentTree",
      R"(A segment tree: sums, minima and maxima over any range of its leaves, and
the search by prefix sums that draws in proportion (Schaul et al., 2016, appendix B.2.1).

Leaves are 0 at first, float32 or float64, finite; those of float64 at most 2^980 in magnitude.
A range [first, last) ends before last; None is the capacity. Sums are doubles, made from the
leaves: there is no drift. ValueError names argument, place, value and what is allowed; a call
that raises has changed nothing. Threads take turns; the GIL is released by calls on more than 512
bytes of arrays or leaves.)");
  type.def(py::init(&make_tree), py::arg("capacity"), py::arg("dtype") = "float32",
           R"(__init__(self, /, capacity, dtype="float32")
--

capacity: leaves, 1 to 2^40, not necessarily a power of two; all are 0 at first.
dtype: of the leaves, and of what calls store in them: float32, 4 bytes a leaf, or float64, 8.
  Sums are doubles in both.)")
      .def(
          "__len__",
          [](const AnyTree& any) {
            return any.visit([](const auto& tree) { return tree.capacity(); });
          },
          "The number of leaves.")
      .def_property_readonly(
          "leaves", &leaves_of,
          "All leaves in order, [capacity] of the tree's dtype: a read-only view, which shows\n"
          "some changed while a call in another thread changes many.")
      .def_property_readonly(
          "dtype",
          [](const AnyTree& any) {
            return any.tree.index() == 0 ? py::dtype::of<float>() : py::dtype::of<double>();
          },
          "Of the leaves: float32 or float64.");
  bind_queries(type);
  bind_changes(type);
}

}  // namespace reprise::python
