#include "api/latents.hpp"
#include "buffer/buffer_core.hpp"
#include "storage/mutable_values.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

// Tests of mutable columns that several threads use at once, and of their checkpoints.

namespace reprise::test {
namespace {

/// Readers and writers of a value that another thread has half written wait for the other half.
TEST(MutableColumn, IsNeverReadWhileItIsHalfWritten) {
  Options options = options_of(Sequences{.length = 3, .period = 1});
  options.shards = 1;
  const auto read_by = [&](const auto& read) {
    LatentBuffer world(options);
    Writer writer = world.replay->writer();
    for (std::uint64_t step = 1; step <= 6; ++step) {
      world.append(writer, step);
    }
    const Batch batch = world.draw_all();
    const std::size_t item = static_cast<std::size_t>(std::ranges::max_element(batch.positions()) -
                                                      batch.positions().begin());
    storage::ChunkStore& store = core_of(*world.replay)->store();
    const storage::MutableField field = core_of(*world.replay)->chunk_layout().mutable_fields()[1];
    const auto [chunk, row] = store.place(batch.keys()[item].slot());
    // The row of the last step, which the writer copies to its next chunk when this chunk is full.
    std::byte* const bytes = store.row(chunk, row + 2);
    const Latent latent = latent_of(batch.now(world.id)[3 * item + 2], 7);
    const auto* const from = reinterpret_cast<const std::byte*>(latent.data());
    std::atomic<bool> done{false};
    std::thread reader;
    EXPECT_TRUE(store.version(bytes)->try_write([&] {
      storage::put_value(bytes + field.offset, from, 8);
      reader = std::thread([&] {
        read(world, writer, batch.keys()[item]);
        done.store(true);
      });
      // A reader that did not wait would finish in this time.
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
      while (!done.load() && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
      }
      EXPECT_FALSE(done.load());
      storage::put_value(bytes + field.offset + 8, from + 8, 6);
    }));
    reader.join();
  };
  read_by([](LatentBuffer& world, Writer&, ItemKey key) {
    EXPECT_EQ(world.shown_writes(world.replay->gather({&key, 1}), 0)[2], 7U);
  });
  read_by([](LatentBuffer& world, Writer&, ItemKey key) {
    std::vector<std::uint16_t> values;
    for (const std::uint64_t step : {4U, 5U, 6U}) {
      const Latent latent = latent_of(step, 9);
      values.insert(values.end(), latent.begin(), latent.end());
    }
    EXPECT_EQ(world.replay->update({&key, 1}, world.latent, values).applied, 1U);
    EXPECT_EQ(world.shown_writes(world.replay->gather({&key, 1}), 0)[2], 9U);
  });
  read_by([&](LatentBuffer& world, Writer&, ItemKey key) {
    const ScratchDirectory directory;
    world.replay->save(directory.path());
    LatentBuffer loaded(options);
    loaded.replay->restore(directory.path());
    EXPECT_EQ(loaded.shown_writes(loaded.replay->gather({&key, 1}), 0)[2], 7U);
  });
  read_by([](LatentBuffer& world, Writer& writer, ItemKey) {
    // The chunk of 8 rows gets full, so the writer repeats its last rows in the next chunk.
    for (std::uint64_t step = 7; step <= 9; ++step) {
      world.append(writer, step);
    }
    const Batch batch = world.draw_all();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      static_cast<void>(world.shown_writes(batch, i));
    }
  });
}

/// A checkpoint has the values at the time of the save, also of chunks in which nothing else has
/// changed.
TEST(MutableColumn, IsSavedAgainInChunksWhoseValuesChanged) {
  for (const bool in_file : {false, true}) {
    for (const bool compressed : {false, true}) {
      SCOPED_TRACE(testing::Message() << in_file << compressed);
      const ScratchDirectory directory;
      const ScratchDirectory rows;
      Options options = options_of(Transitions{});
      if (in_file) {
        options.storage = MappedFile{rows.path()};
      }
      LatentBuffer world(options, compressed);
      Writer writer = world.replay->writer();
      for (std::uint64_t step = 1; step <= 40; ++step) {
        world.append(writer, step);
      }
      const SaveResult first = world.replay->save(directory.path());
      const SaveResult second = world.replay->save(directory.path());
      EXPECT_GT(second.chunks_reused, 2U);
      const Batch batch = world.draw_all();
      const std::size_t item = static_cast<std::size_t>(std::ranges::find(batch.now(world.id), 3U) -
                                                        batch.now(world.id).begin());
      const ItemKey key = batch.keys()[item];
      EXPECT_EQ(world.write(key, 3, 8).applied, 1U);
      // After a failed save, this chunk must still count as changed.
      SaveOptions failing;
      failing.progress = [](const SaveProgress&) { throw std::runtime_error("enough"); };
      EXPECT_THROW(world.replay->save(directory.path(), failing), std::runtime_error);
      const SaveResult third = world.replay->save(directory.path());
      EXPECT_EQ(third.chunks_reused, second.chunks_reused - 1);
      EXPECT_EQ(third.chunks_written, second.chunks_written + 1);
      EXPECT_EQ(world.replay->save(directory.path()).chunks_reused, second.chunks_reused);
      EXPECT_EQ(first.chunks_reused, 0U);

      LatentBuffer loaded(options, compressed);
      loaded.replay->restore(directory.path());
      const Batch restored = loaded.draw_all();
      for (std::size_t i = 0; i < restored.size(); ++i) {
        const std::uint64_t expected = restored.now(world.id)[i] == 3 ? 8 : 0;
        EXPECT_EQ(loaded.shown_writes(restored, i), std::vector<std::uint64_t>{expected});
      }
      // A loaded buffer shares chunks with its checkpoint until their values change.
      EXPECT_EQ(loaded.write(key, 3, 9).applied, 1U);
      const SaveResult fourth = loaded.replay->save(directory.path());
      EXPECT_GT(fourth.chunks_reused, 0U);
      LatentBuffer again(options, compressed);
      again.replay->restore(directory.path());
      const Batch named = again.replay->gather({&key, 1});
      ASSERT_EQ(named.lengths()[0], 1U);
      EXPECT_EQ(again.shown_writes(named, 0), std::vector<std::uint64_t>{9});
    }
  }
}

/// The last windows of an open episode extend into rows at which no item begins yet.
TEST(MutableColumn, OfAnOpenChunkIsSavedAsFarAsWindowsReadIt) {
  const ScratchDirectory directory;
  Options options = options_of(Sequences{.length = 3, .period = 1});
  options.chunk_steps = 32;
  LatentBuffer world(options);
  Writer writer = world.replay->writer();
  for (std::uint64_t step = 1; step <= 10; ++step) {
    world.append(writer, step);
  }
  const Batch batch = world.draw_all();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    world.write(batch.keys()[i], batch.now(world.id)[3 * i], 6);
  }
  world.replay->save(directory.path());
  LatentBuffer loaded(options);
  loaded.replay->restore(directory.path());
  const Batch restored = loaded.draw_all();
  EXPECT_GE(restored.size(), batch.size());
  for (std::size_t i = 0; i < restored.size(); ++i) {
    const std::vector<std::uint64_t> shown = loaded.shown_writes(restored, i);
    for (std::size_t k = 0; k < shown.size(); ++k) {
      EXPECT_EQ(shown[k], restored.now(world.id)[3 * i + k] <= 8 ? 6U : 0U);
    }
  }
}

}  // namespace
}  // namespace reprise::test
