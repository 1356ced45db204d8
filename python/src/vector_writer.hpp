#pragma once

#include "writer.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::python {

/// Who begins the episode after one that ended, and where its first observation is.
enum class AutoReset : std::uint8_t {
  SameStep,  ///< In the call that ended the episode; the final ones are given apart.
  NextStep,  ///< In the call after it, which takes no step.
  Disabled,  ///< The caller begins episodes.
};

template <>
inline constexpr Words words_of<AutoReset>{"_Autoreset", {"same_step", "next_step", "disabled"}};

/// reprise.VectorWriter: the C++ vector writer, and what simulators that reset themselves need.
class VectorWriterObject {
 public:
  VectorWriterObject(std::shared_ptr<SharedBuffer> buffer, std::size_t environments,
                     AutoReset autoreset, std::chrono::nanoseconds timeout)
      : buffer_(std::move(buffer)),
        group_(std::make_shared<WriterGroup>(buffer_->buffer, environments, timeout)),
        autoreset_(autoreset),
        size_(environments),
        resetting_(std::make_unique<bool[]>(environments)),
        values_(buffer_->table),
        final_(buffer_->table),
        resets_(std::make_unique<bool[]>(environments)),
        loose_(buffer_->table, false) {}
  ~VectorWriterObject() {
    const Released released(group_.use_count() == 1);
    group_.reset();
  }
  VectorWriterObject(const VectorWriterObject&) = delete;
  VectorWriterObject& operator=(const VectorWriterObject&) = delete;

  [[nodiscard]] Entered enter(const char* call) const {
    return {group_->in_use, "VectorWriter", *buffer_, call};
  }
  void begin(ArrayLike env_ids, const Fields& observations);
  void append(ArrayLike end, Given<"Mapping[str, ArrayLike]"> final,
              const std::optional<Priorities>& given, ArrayLike env_ids, const Fields& fields);
  void append_transitions(ArrayLike end, ArrayLike env_ids, const Fields& fields);
  [[nodiscard]] std::size_t completing(CallName call, ArrayLike end, ArrayLike env_ids);
  void close() {
    for (std::size_t e = 0; e < size_; ++e) {
      group_->close(e);
    }
  }
  [[nodiscard]] Py_ssize_t size() const noexcept { return static_cast<Py_ssize_t>(size_); }
  [[nodiscard]] nb::object item(PyObject* given) const;

 private:
  [[nodiscard]] VectorWriter& writers() const { return *group_->vector; }
  /// Row i of what a call gives is of environment `environment(i)`.
  [[nodiscard]] std::size_t rows() const { return writers().chosen().size(); }
  [[nodiscard]] std::size_t environment(std::size_t row) const { return writers().chosen()[row]; }
  void choose(nb::handle env_ids);
  void check_writers(const char* call) const;
  void check_open(const char* call) const;
  void end_resets();
  void check_environments(const char* call) const;
  void read_final(nb::handle given, const char* call);
  [[nodiscard]] nb::object gathered(const nb::object& given, const FieldInfo& field) const;
  [[nodiscard]] std::span<const bool> resets();
  [[nodiscard]] bool ends(std::size_t row) const {
    return ends_[row] != End::Continue && !resetting_[environment(row)];
  }
  void await_resets();
  void write_rows(std::uint64_t mask, bool next, bool to_next);
  void write_final();
  void begin_episodes();

  std::shared_ptr<SharedBuffer> buffer_;
  std::shared_ptr<WriterGroup> group_;
  const AutoReset autoreset_;
  const std::size_t size_;
  std::unique_ptr<bool[]> resetting_;  ///< NextStep: the next append takes no step of it.
  /// The last append did not take the steps of all: what it checked is as it was.
  bool unfinished_ = false;

  // Of the append under way:
  StepValues values_;
  StepValues final_;  ///< `final`, as next observations.
  std::vector<End> ends_;
  std::vector<std::size_t> ids_;
  std::unique_ptr<bool[]> resets_;  ///< `resetting_` of each row.
  LooseRows loose_;
};

}  // namespace reprise::python
