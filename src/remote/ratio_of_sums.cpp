#include <reprise/remote.hpp>

#include "base/mutex.hpp"
#include "base/text.hpp"
#include "limiter/limiter.hpp"

#include <algorithm>
#include <numeric>
#include <variant>
#include <vector>

namespace reprise::remote {
namespace {

/// The credit for steps if the limiter does not limit inserts: more than a writer ships at once.
constexpr std::size_t kUnlimitedCredit = std::size_t{1} << 30U;

/// The most inserts that can be restored: the limiter goes on counting from there in 48 bits.
constexpr std::uint64_t kMostInserts = std::uint64_t{1} << 47U;

const RateLimiter& checked(const RateLimiter& limiter) {
  base::require(!std::holds_alternative<Queue>(limiter), base::Call{"ShardedLimiter"},
                "a Queue; allowed: SampleToInsertRatio, MinSize and Unlimited, as "
                "the room of a Queue is known in its shards alone");
  return limiter;
}

}  // namespace

/// A rate limiter for the sums of inserts, samples and items over all shards. Any thread.
class RatioOfSums {
 public:
  RatioOfSums(const RateLimiter& limiter, std::size_t capacity_steps, std::size_t max_writers)
      : limiter_(checked(limiter), capacity_steps, max_writers) {}

  void set_items(std::size_t shard, std::uint64_t items) REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    items_.resize(std::max(items_.size(), shard + 1));
    items_[shard] = items;
  }
  [[nodiscard]] std::size_t items() const REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    return std::accumulate(items_.begin(), items_.end(), std::size_t{0});
  }
  [[nodiscard]] limiter::Limiter& limiter() noexcept { return limiter_; }

  /// Books inserts for `steps` steps. The limiter grants several at a time; those left over are
  /// kept for the next call. Returns false, with nothing booked, if the limiter refuses some.
  [[nodiscard]] bool insert(std::size_t steps) REPRISE_EXCLUDES(mutex_) {
    if (!limiter_.limits_inserts()) {
      return true;
    }
    const RatioBalance ratio = limiter_.balance();
    const double most = ratio.error_buffer / ratio.samples_per_insert;
    base::require(static_cast<double>(steps) <= most, base::Call{"ShardedLimiter::insert"}, steps,
                  " steps; allowed: at most error_buffer / samples_per_insert = ", most);
    const std::size_t items = this->items();
    const base::MutexLock lock(mutex_);
    std::size_t booked = 0;
    while (spare_ + booked < steps) {
      const std::size_t granted = limiter_.book_inserts([=] { return items + booked; });
      if (granted == 0) {
        limiter_.return_inserts(booked);
        return false;
      }
      booked += granted;
    }
    spare_ = spare_ + booked - steps;
    return true;
  }

 private:
  limiter::Limiter limiter_;
  mutable base::Mutex mutex_;
  std::vector<std::size_t> items_ REPRISE_GUARDED_BY(mutex_);  ///< The items of each shard.
  std::size_t spare_ REPRISE_GUARDED_BY(mutex_) = 0;  ///< Steps that were booked and not inserted.
};

}  // namespace reprise::remote

namespace reprise {

ShardedLimiter::ShardedLimiter(const RateLimiter& limiter, std::size_t capacity_steps,
                               std::size_t max_writers)
    : ratio_(std::make_unique<remote::RatioOfSums>(limiter, capacity_steps, max_writers)) {}

ShardedLimiter::~ShardedLimiter() = default;
ShardedLimiter::ShardedLimiter(ShardedLimiter&&) noexcept = default;
ShardedLimiter& ShardedLimiter::operator=(ShardedLimiter&&) noexcept = default;

void ShardedLimiter::set_items(std::size_t shard, std::uint64_t items) {
  ratio_->set_items(shard, items);
}

std::size_t ShardedLimiter::credit() {
  if (!ratio_->limiter().limits_inserts()) {
    return remote::kUnlimitedCredit;
  }
  return ratio_->limiter().book_inserts([&] { return ratio_->items(); });
}

bool ShardedLimiter::insert(std::size_t steps) {
  return ratio_->insert(steps);
}

void ShardedLimiter::return_credit(std::size_t steps) {
  const std::uint64_t inserts = this->inserts();
  base::require(!ratio_->limiter().limits_inserts() || steps <= inserts,
                base::Call{"ShardedLimiter::return_credit"}, steps, " steps; allowed: at most the ",
                inserts, " that are counted");
  ratio_->limiter().return_inserts(steps);
}

bool ShardedLimiter::admit(std::size_t n) {
  base::require(n != 0, base::Call{"ShardedLimiter::admit"}, "0 items; allowed: at least 1");
  ratio_->limiter().check_batch(n);
  return ratio_->limiter().admit_samples(n, [&] { return ratio_->items(); }) ==
         limiter::Limiter::Answer::Admitted;
}

void ShardedLimiter::return_samples(std::size_t n) {
  const std::uint64_t samples = this->samples();
  base::require(n <= samples, base::Call{"ShardedLimiter::return_samples"}, n,
                " items; allowed: at most the ", samples, " that are counted");
  ratio_->limiter().return_samples(n);
}

std::uint64_t ShardedLimiter::inserts() const {
  return ratio_->limiter().counts().inserts;
}

std::uint64_t ShardedLimiter::samples() const {
  return ratio_->limiter().counts().samples;
}

void ShardedLimiter::restore(std::uint64_t inserts, std::uint64_t samples) {
  base::require(inserts <= remote::kMostInserts, base::Call{"ShardedLimiter::restore"},
                "inserts is ", inserts, "; allowed: at most ", remote::kMostInserts);
  ratio_->limiter().restore({inserts, samples}, /*waiting=*/0, ratio_->limiter().terms());
}

RatioBalance ShardedLimiter::balance() const {
  return ratio_->limiter().balance();
}

}  // namespace reprise
