#include <reprise/mixed_sampler.hpp>

#include "api/access.hpp"
#include "base/event.hpp"
#include "base/text.hpp"
#include "buffer/priorities.hpp"
#include "buffer/update.hpp"
#include "sampler/importance.hpp"
#include "select/allot.hpp"
#include "window/batch_access.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace reprise {
namespace {

using Code = SampleStatus::Code;
using Core = std::shared_ptr<buffer::BufferCore>;

/// The most times that a call begins a batch: a batch is begun anew if a part has lost all its
/// weight since the shares were read.
constexpr int kTries = 16;

}  // namespace

/// All parts draw into the same batch: the caller's, or the one of the first part's sampler.
class MixedSampler::State {
 public:
  /// `counts` has the items of each exact part; without counts, n items are drawn by the common
  /// total.
  State(std::vector<Core> cores, std::vector<std::size_t> selectors,
        std::vector<std::size_t> counts, std::size_t n, const SamplerOptions& options)
      : cores_(std::move(cores)),
        selectors_(std::move(selectors)),
        by_total_(counts.empty()),
        n_(n),
        counts_(std::move(counts)),
        random_(options.seed + cores_.size()) {
    base::require(!cores_.empty(), base::Call{"MixedSampler"}, "no parts; allowed: at least one");
    base::require(n != 0 && std::ranges::find(counts_, std::size_t{0}) == counts_.end(),
                  base::Call{"MixedSampler"},
                  "0 items; allowed: at least 1 in all and of each exact part");
    base::require(!options.resume, base::OptionsOf{"SamplerOptions"}, "resume is ",
                  options.resume.value_or(0),
                  "; allowed of a MixedSampler: none, as it names a sampler of one buffer");
    base::require(!by_total_ || !(options.fresh > 0.0F), base::OptionsOf{"SamplerOptions"},
                  "fresh is ", options.fresh,
                  "; allowed by the common total: 0, as it draws by weights alone");
    SamplerOptions each = options;
    for (std::size_t i = 0; i < cores_.size(); ++i, ++each.seed) {
      check_part(i);
      samplers_.push_back(std::make_unique<sampler::SamplerCore>(cores_[i], each, selectors_[i]));
    }
    counts_.resize(cores_.size());
    shares_.resize(cores_.size());
    statuses_.resize(cores_.size());
    keys_.resize(cores_.size());
    priorities_.resize(cores_.size());
  }

  [[nodiscard]] sampler::SamplerCore& sampler(std::size_t part) const {
    base::require(part < samplers_.size(), base::Call{"RowMirror"}, "part is ", part,
                  "; allowed: below ", samplers_.size(), ", the parts of the MixedSampler");
    return *samplers_[part];
  }
  [[nodiscard]] window::BatchStore& own() noexcept { return samplers_.front()->own(); }
  [[nodiscard]] const Batch& batch() const noexcept { return samplers_.front()->batch(); }

  SampleStatus sample(window::BatchStore& batch, const SampleOptions& options) {
    check(batch, options);
    if (&batch == &own()) {
      batch.reserve(n_);
    }
    // A new batch may have the address of the unfinished one, but not its number of begun items.
    const Unfinished into(&batch, options.n_step, options.discount, options.gather);
    if (std::exchange(unfinished_, into) != into || batch.begun != drawn_) {
      drawn_ = 0;
    }
    const base::Clock::time_point deadline = base::deadline_after(options.timeout);
    SampleOptions of_parts = options;
    if (by_total_ || options.normalise == Normalise::ByBatch) {
      of_parts.normalise = Normalise::Not;
    }
    of_parts.beta = by_total_ ? 0.0F : options.beta;
    std::chrono::nanoseconds waited(0);
    SampleStatus last;
    for (int tries = 0; tries < kTries; ++tries) {
      last = draw_rest(batch, of_parts, deadline, waited);
      if (!by_total_ || last.code != Code::NothingToDraw) {
        break;
      }
      drawn_ = 0;
    }
    if (last.code != Code::Ok) {
      last.waited = waited;
      return last;
    }
    drawn_ = 0;
    const std::span<float> weights(batch.weights, n_);
    if (by_total_) {
      weigh({batch.probabilities, n_}, options, weights);
    } else if (options.normalise == Normalise::ByBatch) {
      normalise(weights);
    }
    return whole_status(waited);
  }

  /// Throws, before anything is drawn, for options that any part would refuse.
  void check(const window::BatchStore& batch, const SampleOptions& options) const {
    base::require(by_total_ || cores_.size() == 1 || options.normalise != Normalise::ByBuffer,
                  base::Call{"MixedSampler::sample"}, "normalise is ", base::Enumerator{"ByBuffer"},
                  "; allowed of exact parts: ", base::Enumerator{"ByBatch"}, " and ",
                  base::Enumerator{"Not"}, ", as each buffer has another largest weight");
    base::require(!by_total_ || options.draws <= Draws::Independent,
                  base::Call{"MixedSampler::sample"},
                  "draws need one buffer's items at one moment; allowed by "
                  "the common total: ",
                  base::Enumerator{"Stratified"}, " and ", base::Enumerator{"Independent"});
    for (std::size_t i = 0; i < samplers_.size(); ++i) {
      samplers_[i]->check(samplers_[i]->own(), 0, by_total_ ? n_ : counts_[i], options);
    }
    if (&batch != &samplers_.front()->own()) {
      batch.check_places("sample_into", cores_.front()->schema(), cores_.front()->window(), 0, n_);
    }
  }

  [[nodiscard]] Batch make_batch(std::size_t n, std::pmr::memory_resource* memory) const {
    base::require(n == n_, base::Call{"MixedSampler::make_batch"}, "n is ", n, "; allowed: ", n_,
                  ", the items of all parts");
    return samplers_.front()->make_batch(n, memory);
  }
  /// May be called by any thread, because it reads nothing that a draw changes. `items` and
  /// `needed` are of the first part that lacks items, or sums over the parts if no part lacks any.
  [[nodiscard]] SampleStatus outlook(std::size_t n) const {
    SampleStatus all;
    SampleStatus lacks;
    std::size_t closed = 0;
    bool waits_for_closed = false;
    for (std::size_t i = 0; i < samplers_.size(); ++i) {
      const SampleStatus part = samplers_[i]->outlook(by_total_ ? n : counts_[i]);
      const bool is_closed = part.code == Code::Closed;
      closed += is_closed ? 1U : 0U;
      // A draw by the common total does not ask a buffer without items.
      waits_for_closed = waits_for_closed || (is_closed && (!by_total_ || part.items != 0));
      all.items += part.items;
      all.needed += part.needed;
      if (part.items < part.needed && lacks.needed == 0) {
        lacks = part;
      }
    }
    SampleStatus said = lacks.needed == 0 ? all : lacks;
    said.code = waits_for_closed || closed == samplers_.size() ? Code::Closed : Code::TimedOut;
    said.batch = said.possible = n;
    return said;
  }

  [[nodiscard]] std::size_t size() const noexcept { return n_; }
  [[nodiscard]] std::span<const std::size_t> counts() const noexcept { return counts_; }
  [[nodiscard]] std::size_t waits_for() const noexcept { return waits_for_; }
  [[nodiscard]] std::span<const SampleStatus> statuses() const noexcept { return statuses_; }

  UpdateResult update(std::span<const ItemKey> keys, std::span<const float> priorities) {
    base::require(keys.size() == priorities.size(), base::Call{kUpdate}, keys.size(), " keys and ",
                  priorities.size(), " priorities; allowed: equal counts");
    base::require(same_tag_part_ == 0 || (!by_total_ && keys.size() == n_), base::Call{kUpdate},
                  "parts[", part_of(cores_[same_tag_part_]->tag()), "] and parts[", same_tag_part_,
                  "] have key_tag ", cores_[same_tag_part_]->tag(),
                  "; allowed: different ones, or the keys of a whole batch of exact parts");
    distribute(keys, priorities);
    for (std::size_t i = 0; i < cores_.size(); ++i) {
      cores_[i]->life().check_not_forked();
      buffer::check_keys(kUpdate, *cores_[i], keys_[i]);
    }
    UpdateResult all;
    for (std::size_t i = 0; i < cores_.size(); ++i) {
      const std::size_t first = first_of(i);
      if (is_again(i)) {
        continue;
      }
      const UpdateResult one =
          buffer::update(*cores_[i], keys_[first], priorities_[first], selectors_[i]);
      if (i == first) {  // A key counts once, however many selectors its buffer has here.
        all.applied += one.applied;
        all.stale += one.stale;
      }
    }
    return all;
  }

 private:
  static constexpr const char* kUpdate = "MixedSampler::update_priorities";
  /// What names an unfinished batch: its address, which is only compared, its n_step, its discount,
  /// and whether its rows are gathered.
  using Unfinished = std::tuple<const window::BatchStore*, std::optional<std::uint32_t>,
                                std::optional<float>, bool>;

  [[nodiscard]] const SelectorRule& rule(std::size_t part) const {
    return cores_[part]->selectors().at(selectors_[part]);
  }

  /// Puts the keys and priorities of an update into those of the first part of each buffer. Throws
  /// for keys of no part, and for priorities that a selector does not accept.
  void distribute(std::span<const ItemKey> keys, std::span<const float> priorities) {
    bool good = true;  // Usually the selectors of all parts accept all priorities.
    for (std::size_t i = 0; i < cores_.size(); ++i) {
      keys_[i].clear();
      priorities_[i].clear();
      good = good && buffer::weighable(priorities, rule(i));
    }
    std::size_t part = 0;
    for (std::size_t i = 0, end = counts_.front(); i < keys.size(); ++i) {
      if (same_tag_part_ == 0) {
        part = part_of(keys[i].tag());
        base::require(part < cores_.size(), base::Call{kUpdate}, "keys[", i, "] has tag ",
                      keys[i].tag(), "; allowed: keys of the buffers of the parts");
      } else if (i == end) {
        end += counts_[++part];
      }
      const std::size_t first = first_of(part);
      if (!good) {
        check_priority(priorities, i, first);
      }
      keys_[first].push_back(keys[i]);
      priorities_[first].push_back(priorities[i]);
    }
  }
  /// Throws if a selector of a buffer does not accept a priority. `first`: the buffer's first part.
  void check_priority(std::span<const float> priorities, std::size_t i, std::size_t first) const {
    for (std::size_t p = first; p < cores_.size(); ++p) {
      if (first_of(p) == first) {
        buffer::check_priorities(kUpdate, priorities.subspan(i, 1), rule(p), i);
      }
    }
  }

  void check_part(std::size_t part) {
    buffer::BufferCore& core = *cores_[part];
    core.life().check_not_forked();
    const SelectorRule& rule = this->rule(part);
    const auto require = [part](bool fits, const auto&... why) {
      base::require(fits, base::Call{"MixedSampler"}, "parts[", part, "] ", why...);
    };
    require(core.schema() == cores_.front()->schema(),
            "has another schema than parts[0]; allowed: equal ones");
    require(core.window() == cores_.front()->window(),
            "has another window than parts[0]; allowed: equal ones");
    if (cores_[part_of(core.tag())] != cores_[part]) {
      same_tag_part_ = part;
    }
    if (!by_total_) {
      return;
    }
    require(std::ranges::count(cores_, cores_[part]) == 1,
            "is a buffer given twice; allowed by the common total: once");
    require(core.options().max_times_sampled == 0, "has max_times_sampled ",
            core.options().max_times_sampled, "; allowed by the common total: 0");
    require(rule.law() == Law::ByWeight,
            "has a selector that draws in an order, by rank, recency or mixture; allowed by the "
            "common total: by weights that mean the same in each buffer");
  }

  /// Draws the parts that the batch lacks, all of them before the deadline, and adds their waits to
  /// `waited`. Returns the status of the part that ended the draw, or Ok.
  SampleStatus draw_rest(window::BatchStore& batch, SampleOptions& of_parts,
                         base::Clock::time_point deadline, std::chrono::nanoseconds& waited) {
    if (drawn_ == 0) {
      next_ = 0;
      if (by_total_) {
        allot(of_parts.draws);
      }
    }
    SampleStatus part;
    for (; next_ < samplers_.size(); ++next_) {
      const std::size_t count = counts_[next_];
      if (count == 0) {
        continue;
      }
      waits_for_ = next_;
      const auto left = std::chrono::nanoseconds(deadline - base::Clock::now());
      of_parts.timeout = std::max(left, std::chrono::nanoseconds(0));
      part = samplers_[next_]->sample(batch, drawn_, count, of_parts);
      waited += part.waited;
      if (part.code != Code::Ok) {
        return part;
      }
      statuses_[next_] = part;
      drawn_ += count;
      batch.begun = drawn_;
    }
    return part;
  }

  /// The status of a whole batch that has just been drawn.
  [[nodiscard]] SampleStatus whole_status(std::chrono::nanoseconds waited) const {
    SampleStatus whole;
    whole.waited = waited;
    whole.passes = statuses_.front().passes;
    for (std::size_t i = 0; i < cores_.size(); ++i) {
      whole.items += cores_[i]->shards().items();
      whole.needed += cores_[i]->limiter().needed(counts_[i]);
      whole.fresh += statuses_[i].fresh;
      whole.version = std::max(whole.version, statuses_[i].version);
      whole.passes = std::min(whole.passes, statuses_[i].passes);
    }
    whole.batch = whole.possible = n_;
    return whole;
  }

  /// Reads the totals of all parts into `shares_`, and what importance weights depend on into
  /// `facts_`. Returns the sum of the totals.
  double read_totals() {
    facts_ = {0.0, std::numeric_limits<double>::infinity(), 0.0};
    for (std::size_t i = 0; i < cores_.size(); ++i) {
      cores_[i]->shards().ingest_pending();
      const SelectorSummary hint = buffer::hinted(*cores_[i], selectors_[i]);
      shares_[i] = hint.total;
      facts_.items += static_cast<double>(cores_[i]->shards().items());
      facts_.lowest_probability =
          std::min(facts_.lowest_probability, static_cast<double>(hint.min_positive));
    }
    const double sum = std::accumulate(shares_.begin(), shares_.end(), 0.0);
    if (sum > 0.0) {
      facts_.lowest_probability /= sum;  // Without weight, it stays infinite.
    }
    return sum;
  }

  /// Computes how many items each part gives to a draw by the common total.
  void allot(Draws draws) {
    const double sum = read_totals();
    if (!(sum > 0.0)) {
      std::ranges::fill(shares_, 0.0);
      shares_.front() = 1.0;
    } else {
      std::ranges::transform(shares_, shares_.begin(), [=](double share) { return share / sum; });
    }
    if (draws == Draws::Stratified) {
      select::allot_counts(shares_, n_, random_.uniform(), counts_);
    } else {
      positions_.resize(n_);
      fractions_.resize(n_);
      select::allot(shares_, select::Spread::Independent, random_, positions_, fractions_, counts_);
    }
  }

  /// Normalises the weights of all parts together.
  static void normalise(std::span<float> weights) noexcept {
    const float largest = *std::ranges::max_element(weights);
    std::ranges::transform(weights, weights.begin(), [=](float weight) {
      return std::max(weight / largest, std::numeric_limits<float>::min());
    });
  }

  /// Computes P(i) of a draw by the common total: P(i) in the part, times the part's share.
  void weigh(std::span<double> probabilities, const SampleOptions& options,
             std::span<float> weights) {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < counts_.size(); begin += counts_[i++]) {
      for (double& probability : probabilities.subspan(begin, counts_[i])) {
        probability *= shares_[i];
      }
    }
    if (!std::isfinite(facts_.lowest_probability)) {
      read_totals();  // The totals were 0 when the batch was allotted.
    }
    facts_.lowest_drawn = *std::ranges::min_element(probabilities);
    sampler::weigh(probabilities, facts_, options.beta, options.normalise, weights);
  }

  /// The first part with the same buffer as this one.
  [[nodiscard]] std::size_t first_of(std::size_t part) const noexcept {
    return static_cast<std::size_t>(std::ranges::find(cores_, cores_[part]) - cores_.begin());
  }
  /// Whether an earlier part has the same selector of the same buffer.
  [[nodiscard]] bool is_again(std::size_t part) const noexcept {
    std::size_t p = first_of(part);
    while (cores_[p] != cores_[part] || selectors_[p] != selectors_[part]) {
      ++p;
    }
    return p != part;
  }

  /// The index of the first part whose keys have the tag; the number of parts if there is none.
  [[nodiscard]] std::size_t part_of(std::uint32_t tag) const noexcept {
    const auto found = std::ranges::find(cores_, tag, [](const Core& core) { return core->tag(); });
    return static_cast<std::size_t>(found - cores_.begin());
  }

  const std::vector<Core> cores_;
  const std::vector<std::size_t> selectors_;  ///< Each part's selector, by its index in the buffer.
  const bool by_total_;
  const std::size_t n_;
  // One element per part.
  std::vector<std::size_t> counts_;
  std::vector<double> shares_;          ///< Shares of the common total.
  std::vector<SampleStatus> statuses_;  ///< The status of each part's last draw.
  std::vector<std::unique_ptr<sampler::SamplerCore>> samplers_;
  std::vector<std::vector<ItemKey>> keys_;  ///< Scratch of an update, as is `priorities_`.
  std::vector<std::vector<float>> priorities_;
  /// The index of a part that has the tag of an earlier part of another buffer; 0: none.
  std::size_t same_tag_part_ = 0;
  // The unfinished batch.
  Unfinished unfinished_;
  std::size_t drawn_ = 0;  ///< Items already drawn into the unfinished batch.
  std::size_t next_ = 0;   ///< The part that is drawn next.
  sampler::DrawFacts facts_;
  std::size_t waits_for_ = 0;

  base::Random random_;            ///< Independent of the generators of the parts' samplers.
  std::vector<double> positions_;  ///< Scratch of independent draws, as is `fractions_`.
  std::vector<double> fractions_;
};

MixedSampler::MixedSampler(const std::vector<MixedPart>& parts, const SamplerOptions& options) {
  std::vector<Core> cores;
  std::vector<std::size_t> selectors;
  std::vector<std::size_t> counts;
  std::size_t n = 0;
  for (const MixedPart& part : parts) {
    base::require(part.items <= std::numeric_limits<std::uint32_t>::max() - n,
                  base::Call{"MixedSampler"}, part.items,
                  " items of a part; allowed: below 2^32 in all");
    cores.push_back(detail::Access::core(part.selector));
    selectors.push_back(detail::Access::place(part.selector));
    counts.push_back(part.items);
    n += part.items;
  }
  state_ = std::make_unique<State>(std::move(cores), std::move(selectors), std::move(counts), n,
                                   options);
}

MixedSampler::MixedSampler(const std::vector<SelectorHandle>& parts, std::size_t n,
                           const SamplerOptions& options) {
  std::vector<Core> cores;
  std::vector<std::size_t> selectors;
  for (const SelectorHandle& part : parts) {
    cores.push_back(detail::Access::core(part));
    selectors.push_back(detail::Access::place(part));
  }
  state_ = std::make_unique<State>(std::move(cores), std::move(selectors),
                                   std::vector<std::size_t>(), n, options);
}

MixedSampler::~MixedSampler() = default;

SampleResult MixedSampler::sample(const SampleOptions& options) & {
  const SampleStatus status = state_->sample(state_->own(), options);
  return {status.code == Code::Ok ? &state_->batch() : nullptr, status};
}
SampleStatus MixedSampler::sample_into(Batch& batch, const SampleOptions& options) {
  return state_->sample(window::BatchAccess::store(batch), options);
}
Batch MixedSampler::make_batch(std::size_t n, std::pmr::memory_resource* memory) const {
  return state_->make_batch(n, memory);
}
void MixedSampler::check(const Batch& batch, const SampleOptions& options) const {
  state_->check(window::BatchAccess::store(batch), options);
}
SampleStatus MixedSampler::outlook(std::size_t n) const {
  return state_->outlook(n);
}
std::size_t MixedSampler::size() const noexcept {
  return state_->size();
}
sampler::SamplerCore& MixedSampler::sampler(std::size_t part) const {
  return state_->sampler(part);
}
std::span<const std::size_t> MixedSampler::counts() const noexcept {
  return state_->counts();
}
std::size_t MixedSampler::waits_for() const noexcept {
  return state_->waits_for();
}
std::span<const SampleStatus> MixedSampler::statuses() const noexcept {
  return state_->statuses();
}
UpdateResult MixedSampler::update_priorities(std::span<const ItemKey> keys,
                                             std::span<const float> priorities) {
  return state_->update(keys, priorities);
}

}  // namespace reprise
