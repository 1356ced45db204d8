#pragma once

#include <reprise/device_ring.hpp>

#include "testing/fixtures/line.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>

namespace reprise::test {

/// Appends steps 0 to 39 with priorities 1 to 40.
inline void fill(NumberedBuffer& line) {
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 40, [](std::uint64_t i) { return static_cast<float>(i + 1); });
}

inline constexpr std::align_val_t kAligned{256};  ///< The alignment that `Device` requires.

/// A device without threads, which does copies and work as early, or as late, as the ring allows.
class Scripted final : public Device {
 public:
  /// Whether copies, or work, are done as early as possible instead of as late as possible.
  struct Eager {
    bool copies = false;
    bool work = false;
  };
  explicit Scripted(const Eager& eager) : eager_copies_(eager.copies), eager_work_(eager.work) {}

  void* allocate(std::size_t bytes, bool on_host) override {
    EXPECT_NE(bytes, 0U);
    if (fail_at >= 0 && fail_at-- == 0) {
      throw std::bad_alloc();
    }
    void* const block = ::operator new(bytes, kAligned);
    std::memset(block, 0xEE, bytes);
    blocks[on_host][block] = bytes;
    return block;
  }
  void free(void* memory, bool on_host) noexcept override {
    EXPECT_EQ(blocks[on_host].erase(memory), 1U);
    EXPECT_EQ(copies_under_way, 0) << "a copy may use the memory that is freed";
    ::operator delete(memory, kAligned);
  }
  Event make_event() override {
    if (fail_event) {
      throw std::runtime_error("there is no event left");
    }
    ++events;
    return new Mark;
  }
  void free_event(Event event) noexcept override {
    --events;
    delete static_cast<Mark*>(event);
  }

  void copy(void* to, const void* from, std::size_t bytes, Event made) override {
    if (fail_copy) {
      throw std::runtime_error("the device has failed");
    }
    auto* const mark = static_cast<Mark*>(made);
    ++copies_under_way;
    enqueue(copies_, [=, this, requested = ++mark->requested] {
      std::memcpy(to, from, bytes);
      mark->completed = requested;
      --copies_under_way;
      return true;
    });
  }
  void copy_after(Stream /*stream*/) override {
    enqueue(copies_, [this, requested = requested_work_] { return completed_work_ >= requested; });
  }
  void follow(Stream /*stream*/, Event made) override {
    const auto* const mark = static_cast<const Mark*>(made);
    put_work([mark, requested = mark->requested] { return mark->completed >= requested; });
  }
  void wait(Event made) override {
    const auto* const mark = static_cast<const Mark*>(made);
    while (mark->completed < mark->requested) {
      ASSERT_TRUE(step(copies_) || step(work_)) << "copies and work wait for each other";
    }
  }

  /// Adds work to the learner's stream.
  void work(std::function<void()> task) {
    put_work([task = std::move(task)] {
      task();
      return true;
    });
  }
  /// Does all copies and work.
  void finish() {
    while (step(work_) || step(copies_)) {
    }
    EXPECT_TRUE(work_.empty() && copies_.empty());
  }

  /// Allocated blocks and their bytes, in the memory of the device [0] and of the host [1].
  std::map<void*, std::size_t> blocks[2];
  int events = 0;
  int copies_under_way = 0;
  int fail_at = -1;  ///< The number of the allocation that fails, counted from 0; -1 if none does.
  bool fail_event = false;
  bool fail_copy = false;

 private:
  /// An event: the number of copies that were requested with it, and of those that were made.
  struct Mark {
    int requested = 0;
    int completed = 0;
  };
  /// Operations in order. An operation returns false if it has to wait for another queue.
  using Queue = std::deque<std::function<bool()>>;

  /// Does the first operation of a queue. Returns whether it could be done.
  static bool step(Queue& queue) {
    if (queue.empty() || !queue.front()()) {
      return false;
    }
    queue.pop_front();
    return true;
  }
  void enqueue(Queue& queue, std::function<bool()> operation) {
    queue.push_back(std::move(operation));
    while ((eager_copies_ && step(copies_)) || (eager_work_ && step(work_))) {
    }
  }
  void put_work(std::function<bool()> operation) {
    ++requested_work_;
    enqueue(work_, [this, operation = std::move(operation)] {
      const bool done = operation();
      completed_work_ += done ? 1 : 0;
      return done;
    });
  }

  const bool eager_copies_;
  const bool eager_work_;
  Queue copies_;
  Queue work_;
  int requested_work_ = 0;
  int completed_work_ = 0;
};

/// A device with a thread for its copies and one for the learner's work. Only the calls of the ring
/// order the accesses of the two threads, so ThreadSanitizer reports a call that is missing.
class Threaded final : public Device {
 public:
  void* allocate(std::size_t bytes, bool /*on_host*/) override {
    return ::operator new(bytes, kAligned);
  }
  void free(void* memory, bool /*on_host*/) noexcept override {
    ::operator delete(memory, kAligned);
  }
  Event make_event() override { return &marks_.emplace_back(); }
  void free_event(Event /*event*/) noexcept override {}

  void copy(void* to, const void* from, std::size_t bytes, Event made) override {
    auto* const mark = static_cast<Mark*>(made);
    copies_.enqueue([=, requested = ++mark->requested] {
      std::memcpy(to, from, bytes);
      mark->completed.store(requested, std::memory_order_release);
      mark->completed.notify_all();
    });
  }
  void copy_after(Stream /*stream*/) override {
    const auto done = std::make_shared<std::latch>(1);
    work_.enqueue([done] { done->count_down(); });
    copies_.enqueue([done] { done->wait(); });
  }
  void follow(Stream /*stream*/, Event made) override {
    const auto* const mark = static_cast<const Mark*>(made);
    work_.enqueue([mark, requested = mark->requested] { mark->wait(requested); });
  }
  void wait(Event made) override {
    const auto* const mark = static_cast<const Mark*>(made);
    mark->wait(mark->requested);
  }

  void work(std::function<void()> task) { work_.enqueue(std::move(task)); }
  void finish() {
    const auto done = std::make_shared<std::latch>(1);
    work_.enqueue([done] { done->count_down(); });
    done->wait();
  }

 private:
  struct Mark {
    void wait(int until) const {
      int now = completed.load(std::memory_order_acquire);
      while (now < until) {
        completed.wait(now, std::memory_order_acquire);
        now = completed.load(std::memory_order_acquire);
      }
    }
    int requested = 0;  ///< Accessed only by the caller's thread.
    std::atomic<int> completed{0};
  };

  /// Runs functions in order on a thread of its own.
  class Queue {
   public:
    void enqueue(std::function<void()> task) {
      {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(task));
      }
      ready_.notify_one();
    }

   private:
    void run(const std::stop_token& stop) {
      std::unique_lock lock(mutex_);
      while (ready_.wait(lock, stop, [&] { return !waiting_.empty(); })) {
        const auto task = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        task();
        lock.lock();
      }
    }

    std::mutex mutex_;
    std::condition_variable_any ready_;
    std::deque<std::function<void()>> waiting_;
    std::jthread thread_{[this](const std::stop_token& stop) { run(stop); }};
  };

  /// Marks are kept to the end: a thread may still notify a mark after the wait for it.
  std::deque<Mark> marks_;
  Queue copies_;
  Queue work_;
};

}  // namespace reprise::test
