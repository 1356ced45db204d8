#include "window/batch_store.hpp"

#include "base/sync.hpp"
#include "testing/test.hpp"

#include <memory_resource>
#include <new>

namespace reprise::window {
namespace {

/// A memory resource that allocates until `refuses` is set.
class RefusingResource final : public std::pmr::memory_resource {
 public:
  bool refuses = false;
  std::size_t allocations = 0;
  std::size_t live = 0;
  const std::byte* block = nullptr;
  std::size_t bytes = 0;

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    if (refuses) {
      throw std::bad_alloc();
    }
    void* const memory = std::pmr::new_delete_resource()->allocate(size, alignment);
    ++allocations;
    ++live;
    block = static_cast<const std::byte*>(memory);
    bytes = size;
    return memory;
  }
  void do_deallocate(void* memory, std::size_t size, std::size_t alignment) override {
    --live;
    std::pmr::new_delete_resource()->deallocate(memory, size, alignment);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }
};

Schema schema_of_all_roles() {
  Schema schema;
  schema.observation<std::uint8_t>("pixels", {5});
  schema.observation<double>("clock");
  schema.column<std::int16_t>("action", {3});
  schema.reward("reward");
  schema.discount("discount");
  return schema;
}

struct Fixture {
  explicit Fixture(const Window& window = Transitions{.frame_stack = 2}, bool unique_frames = false)
      : store(schema_of_all_roles(), window::WindowSpec(window), &memory, unique_frames) {}

  RefusingResource memory;
  BatchStore store;
};

/// The address of each column, and its size in bytes for n items.
std::vector<std::pair<const std::byte*, std::size_t>> columns_of(const BatchStore& store,
                                                                 std::size_t n) {
  std::vector<std::pair<const std::byte*, std::size_t>> columns;
  const auto add = [&](const void* data, std::size_t bytes) {
    columns.emplace_back(static_cast<const std::byte*>(data), n * bytes);
  };
  for (std::size_t i = 0; i < store.column_count; ++i) {
    const FieldSpec& spec = store.schema().fields()[i];
    const detail::BatchView::Column& column = store.columns[i];
    const bool observation = spec.role == Role::Observation;
    if (observation && store.unique_frames) {
      add(column.data[detail::BatchView::kFrames], spec.bytes * store.window().frames());
    } else {
      EXPECT_EQ(column.data[detail::BatchView::kFrames], nullptr);
      add(column.data[detail::BatchView::kNow], spec.bytes * store.window().values(spec.traits()));
    }
    if (observation && !store.unique_frames) {
      add(column.data[detail::BatchView::kNext], spec.bytes * store.window().values(spec.traits()));
    } else {
      EXPECT_EQ(column.data[detail::BatchView::kNext], nullptr);
    }
    if (spec.role == Role::Reward && store.window().n_step() != 0) {
      add(column.data[detail::BatchView::kReturns], store.window().target_count() * sizeof(float));
    } else {
      EXPECT_EQ(column.data[detail::BatchView::kReturns], nullptr);
    }
  }
  add(store.discounts, store.window().target_count() * sizeof(float));
  add(store.weights, sizeof(float));
  add(store.probabilities, sizeof(double));
  add(store.keys, sizeof(ItemKey));
  add(store.episodes, sizeof(std::uint64_t));
  add(store.positions, sizeof(std::uint64_t));
  add(store.lengths, sizeof(std::uint32_t));
  return columns;
}

TEST(BatchStore, ColumnsAreOnLinesOfTheirOwnInOneBlock) {
  const std::pair<Window, bool> kinds[] = {{Transitions{}, false},
                                           {Transitions{.frame_stack = 4}, false},
                                           {Transitions{.frame_stack = 4}, true},
                                           {Sequences{.length = 3}, false},
                                           {Sequences{.length = 300, .n_step = 2}, false},
                                           {Sequences{.length = 3, .frame_stack = 4}, false},
                                           {Sequences{.length = 3, .frame_stack = 4}, true}};
  for (std::size_t kind = 0; kind < std::size(kinds); ++kind) {
    for (const std::size_t n : {1U, 7U, 64U, 513U}) {
      SCOPED_TRACE(testing::Message() << "kind " << kind << ", " << n << " items");
      Fixture fixture(kinds[kind].first, kinds[kind].second);
      fixture.store.reserve(n);
      EXPECT_EQ(fixture.store.capacity, n);
      EXPECT_EQ(fixture.memory.allocations, 1U);
      auto columns = columns_of(fixture.store, n);
      std::sort(columns.begin(), columns.end());
      const std::byte* end = fixture.memory.block;
      for (const auto& [data, bytes] : columns) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % base::kCacheLine, 0U);
        EXPECT_GE(data, end);
        end = data + bytes;
      }
      EXPECT_LE(end, fixture.memory.block + fixture.memory.bytes);
    }
  }
}

TEST(BatchStore, GrowsWhenItMustAndGivesBackWhatItHad) {
  Fixture fixture;
  fixture.store.reserve(10);
  fixture.store.size = 10;
  const float* const weights = fixture.store.weights;
  fixture.store.reserve(4);
  EXPECT_EQ(fixture.store.weights, weights);
  EXPECT_EQ(fixture.store.capacity, 10U);
  EXPECT_EQ(fixture.store.size, 10U);
  fixture.store.reserve(11);
  EXPECT_EQ(fixture.store.capacity, 11U);
  EXPECT_EQ(fixture.store.size, 0U) << "contents are lost";
  EXPECT_EQ(fixture.memory.allocations, 2U);
  EXPECT_EQ(fixture.memory.live, 1U);
}

TEST(BatchStore, IsUnchangedWhenMemoryIsRefused) {
  Fixture fixture;
  BatchStore& store = fixture.store;
  store.reserve(6);
  store.size = 5;
  std::fill_n(store.weights, 6, 0.75F);
  std::fill_n(store.lengths, 6, 42U);
  const auto before = columns_of(store, 6);
  fixture.memory.refuses = true;
  EXPECT_THROW(store.reserve(100), std::bad_alloc);
  EXPECT_EQ(columns_of(store, 6), before);
  EXPECT_EQ(store.capacity, 6U);
  EXPECT_EQ(store.size, 5U);
  EXPECT_EQ(store.weights[5], 0.75F);
  EXPECT_EQ(store.lengths[0], 42U);
  EXPECT_NO_THROW(store.reserve(6));
  fixture.memory.refuses = false;
  store.reserve(100);
  EXPECT_EQ(store.capacity, 100U);
  EXPECT_EQ(fixture.memory.live, 1U);
}

TEST(BatchStore, HasNoColumnsYetIfTheFirstMemoryIsRefused) {
  Fixture fixture;
  fixture.memory.refuses = true;
  EXPECT_THROW(fixture.store.reserve(8), std::bad_alloc);
  EXPECT_EQ(fixture.store.capacity, 0U);
  EXPECT_EQ(fixture.store.weights, nullptr);
  EXPECT_EQ(fixture.store.columns[0].data[detail::BatchView::kNow], nullptr);
}

TEST(BatchStore, RefusesNoItemsAndMoreThanTheMachineHoldsUnchanged) {
  Fixture fixture;
  fixture.store.reserve(6);
  const auto before = columns_of(fixture.store, 6);
  for (const std::size_t n : {std::size_t{0}, std::numeric_limits<std::size_t>::max(),
                              std::numeric_limits<std::size_t>::max() / 64}) {
    test::expect_refusal(
        [&] { fixture.store.reserve(n); },
        {"batch size is " + std::to_string(n) + ";", "allowed: 1 to memory / bytes per item = "});
  }
  EXPECT_EQ(columns_of(fixture.store, 6), before);
  EXPECT_EQ(fixture.store.capacity, 6U);
  EXPECT_EQ(fixture.memory.allocations, 1U);
}

TEST(BatchStore, RefusesPlacesOutsideAndBuffersOfAnotherSchemaOrWindow) {
  Fixture fixture;
  fixture.store.reserve(6);
  const Schema schema = schema_of_all_roles();
  Schema other = schema_of_all_roles();
  other.column<bool>("more");
  const auto check = [&](const Schema& of, std::uint32_t stack, std::size_t offset, std::size_t n) {
    fixture.store.check_places("call", of, window::WindowSpec(Transitions{.frame_stack = stack}),
                               offset, n);
  };
  EXPECT_NO_THROW(check(schema, 2, 2, 4));
  test::expect_refusal([&] { check(schema, 3, 2, 4); },
                       {"call: the batch is of another schema or window"});
  test::expect_refusal([&] { check(other, 2, 2, 4); },
                       {"call: the batch is of another schema or window"});
  for (const auto& [offset, n] : {std::pair<std::size_t, std::size_t>{3, 4}, {7, 0}}) {
    test::expect_refusal(
        [&] { check(schema, 2, offset, n); },
        {"offset " + std::to_string(offset) + " + n " + std::to_string(n), "capacity 6"});
  }
}

TEST(Batch, OfNoBufferFitsOneOfASchemaAndWindow) {
  Schema schema;
  const auto x = schema.observation<float>("x");
  const auto reward = schema.reward("reward");
  const Transitions window{.n_step = 2, .frame_stack = 2};
  ReplayBuffer replay(schema, {.capacity_steps = 10, .window = window});
  auto writer = replay.writer();
  for (const bool unique_frames : {false, true}) {
    writer.begin_episode();
    writer.now(x) = 1;
    writer.next(x) = 2;
    writer.now(reward) = 3;
    writer.commit(End::Terminated);
    Batch batch = Batch::of(schema, window, 3, unique_frames);
    EXPECT_EQ(batch.size(), 3U);
    EXPECT_EQ(batch.capacity(), 3U);
    EXPECT_EQ(batch.unique_frames(), unique_frames);
    EXPECT_EQ(batch.shape(x), (std::vector<std::size_t>{3, 2}));
    EXPECT_EQ(batch.lengths().size(), 3U);
    auto sampler = replay.sampler({.unique_frames = unique_frames});
    ASSERT_TRUE(sampler.sample_into(batch, 0, 3).code == SampleStatus::Code::Ok);
    EXPECT_EQ(batch.next_stacks(x)[2].back(), 2.0F);
    EXPECT_EQ(batch.returns(reward)[1], 3.0F);
  }
  test::expect_refusal([&] { (void)Batch::of(schema, window, 0); },
                       {"batch size is 0; allowed: 1 to "});
  test::expect_refusal([&] { (void)Batch::of(schema, Transitions{.n_step = 0}, 1); },
                       {"n_step is 0"});
  schema.recurrent_state<float>("state", {2});
  test::expect_refusal([&] { (void)Batch::of(schema, window, 1); },
                       {"'state' is a recurrent state"});
}

TEST(BatchStore, SignaturesAreThoseOfTheFieldsHandles) {
  const Fixture fixture;
  EXPECT_EQ(fixture.store.columns[0].signature, (detail::kSignature<Observation<std::uint8_t>>));
  EXPECT_EQ(fixture.store.columns[1].signature, (detail::kSignature<ScalarObservation<double>>));
  EXPECT_EQ(fixture.store.columns[3].signature, (detail::kSignature<Reward>));
  EXPECT_EQ(fixture.store.columns[0].elements, 10U);
  EXPECT_EQ(fixture.store.columns[2].elements, 3U);
}

}  // namespace
}  // namespace reprise::window
