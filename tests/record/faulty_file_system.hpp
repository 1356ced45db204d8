#pragma once

#include "record/file_system.hpp"
#include "testing/test.hpp"

namespace reprise::test {

/// The calls of `record::FileSystem` and of its directories and files, which tests make fail.
enum class Call : std::uint8_t {
  OpenDirectory,
  Create,
  Open,
  Read,
  Write,
  Size,
  SyncFile,
  Rename,
  Remove,
  List,
  SyncDirectory,
  Lock,
};
inline constexpr std::size_t kCalls = 12;
const char* name_of(Call call);

/// A fault of the n-th call of one kind.
struct Fault {
  enum class How : std::uint8_t {
    Fails,         ///< The call does nothing and returns `error`; later calls work.
    FailsForGood,  ///< This call and all later calls of its kind return `error`.
    DoneButFails,  ///< The call does its work, but returns `error`.
    Short,         ///< From this call on, reads and writes move half of the bytes, at least one.
  };

  Call call = Call::Write;
  std::size_t nth = 0;  ///< Counted from 0.
  How how = How::Fails;
  int error = 0;
};

/// Forwards calls to another file system, with one fault. Not thread-safe.
class FaultyFileSystem final : public record::FileSystem {
 public:
  FaultyFileSystem(record::FileSystem& inner, const Fault& fault) : inner_(inner), fault_(fault) {}
  /// Makes no fault, but calls `before` before each call.
  FaultyFileSystem(record::FileSystem& inner, std::function<void()> before)
      : inner_(inner), before_(std::move(before)) {}

  int open_directory(const std::string& path, record::IfAbsent if_absent,
                     std::unique_ptr<record::Directory>& directory) override;

  /// The number of calls of this kind so far.
  [[nodiscard]] std::size_t calls(Call call) const {
    return calls_[static_cast<std::size_t>(call)];
  }
  [[nodiscard]] bool fault_occurred() const { return calls(fault_.call) > fault_.nth; }

  /// What happens to a call.
  enum class Fate : std::uint8_t { Works, Fails, WorksButFails, Halved };
  /// Counts a call, and returns what has to happen to it.
  Fate next(Call call);
  [[nodiscard]] int error() const { return -fault_.error; }

  /// Makes a call that returns 0 or an error, unless the call is the faulty one.
  template <class Work>
  int run(Call call, const Work& work) {
    switch (next(call)) {
      case Fate::Fails:
        return error();
      case Fate::WorksButFails:
        work();
        return error();
      case Fate::Works:
      case Fate::Halved:
        break;
    }
    return work();
  }

 private:
  record::FileSystem& inner_;
  const Fault fault_{.nth = static_cast<std::size_t>(-1)};  // No call has this number.
  const std::function<void()> before_;
  std::array<std::size_t, kCalls> calls_{};
};

}  // namespace reprise::test
