#include <reprise/checkpoint.hpp>
#include <reprise/replay_buffer.hpp>

#include "api/access.hpp"
#include "base/mutex.hpp"
#include "base/text.hpp"
#include "checkpoint/saver.hpp"
#include "record/posix_file_system.hpp"
#include "save/save.hpp"

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

namespace reprise {

class Autosave::State {
 public:
  State(std::shared_ptr<buffer::BufferCore> core, std::string directory,
        const AutosaveOptions& options)
      : core_(std::move(core)),
        directory_(std::move(directory)),
        every_(options.every),
        options_(checkpoint::checked({.compression = options.compression,
                                      .keep = options.keep,
                                      .bytes_per_second = options.bytes_per_second})) {
    base::require(options.every.count() > 0, base::OptionsOf{"AutosaveOptions"}, "every is ",
                  options.every.count(), " ns; allowed: above 0");
  }

  void run(const std::stop_token& stop) {
    core_->life().check_not_forked();
    SaveOptions save_options = options_;
    save_options.stop = stop;
    while (!stop.stop_requested()) {
      const base::Clock::time_point next = base::deadline_after(every_);
      try {
        save_what_is_new(save_options);
      } catch (const std::exception& error) {
        if (!stop.stop_requested()) {
          note_failure(error);
        }
      }
      // Sleeps until the next save is due or stop is requested.
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any().wait_until(lock, stop, next, [] { return false; });
    }
    save_options.stop = {};
    save_options.bytes_per_second = 0;
    try {
      save_what_is_new(save_options);
    } catch (const std::exception& error) {
      note_failure(error);
      throw;
    }
  }

  [[nodiscard]] AutosaveStatus status() const REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    return status_;
  }

 private:
  /// Counters of the buffer: while none of them changes, a save has nothing new to write.
  struct CounterValues {
    std::uint64_t committed = 0;
    std::uint64_t evicted = 0;
    std::uint64_t samples = 0;
    std::uint64_t updates = 0;
    std::size_t items = 0;
    std::uint64_t changes = 0;
    friend bool operator==(const CounterValues&, const CounterValues&) = default;
  };
  [[nodiscard]] CounterValues read_counters() const {
    core_->shards().drain();  // Otherwise the save would ingest, and so change the count of items.
    const Stats stats = core_->stats();
    // S1: acquire; partner: Counters::changed. The next save contains the changes counted here.
    const std::uint64_t changes = core_->counters.changes.load(std::memory_order_acquire);
    return {stats.committed_steps, stats.evicted_steps, stats.sampled_items,
            stats.applied_updates, stats.items,         changes};
  }

  void save_what_is_new(const SaveOptions& options) REPRISE_EXCLUDES(mutex_) {
    const CounterValues counters = read_counters();
    if (saved_ == counters) {
      return;
    }
    const SaveResult result = save::save(*core_, files_, directory_, options, /*samplers=*/{});
    saved_ = counters;
    const base::MutexLock lock(mutex_);
    ++status_.saves;
    status_.last = result;
    status_.problem.clear();
  }
  void note_failure(const std::exception& error) REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    ++status_.failures;
    status_.problem = error.what();
  }

  const std::shared_ptr<buffer::BufferCore> core_;
  record::PosixFileSystem files_;
  const std::string directory_;
  const std::chrono::nanoseconds every_;
  const SaveOptions options_;
  std::optional<CounterValues> saved_;  ///< The counters read before the newest save.
  mutable base::Mutex mutex_;
  AutosaveStatus status_ REPRISE_GUARDED_BY(mutex_);
};

Autosave::Autosave(ReplayBuffer& buffer, const std::filesystem::path& directory,
                   const AutosaveOptions& options)
    : state_(std::make_unique<State>(detail::Access::core(buffer), directory.string(), options)) {}
Autosave::~Autosave() = default;

void Autosave::run(std::stop_token stop) {
  state_->run(stop);
}

AutosaveStatus Autosave::status() const {
  return state_->status();
}

}  // namespace reprise
