#include <reprise/remote.hpp>

#include "remote/blob.hpp"
#include "remote/blobs.hpp"
#include "remote/exchange.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// Passes a blob to the shard or the client that reads blobs of this kind.
using Take = std::function<void(const Bytes&)>;

/// Expects that `take` refuses the blob with a flipped bit in any byte, cut at any byte, or one
/// byte too long, and that this changes nothing. The intact blob must be accepted afterwards.
void expect_refused_when_damaged(Blobs& blobs, const Bytes& whole, const Take& take) {
  const std::string before = blobs.state();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Bytes flipped = whole;
    flipped[i] ^= std::byte{0x10};
    EXPECT_THROW(take(flipped), std::invalid_argument) << "byte " << i;
    EXPECT_THROW(take(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(i))),
                 std::invalid_argument)
        << "length " << i;
  }
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_THROW(take(longer), std::invalid_argument);
  EXPECT_EQ(blobs.state(), before);
  EXPECT_NO_THROW(take(whole));
  EXPECT_NE(blobs.state(), before);
}

TEST(BlobDamage, OfAShipmentIsRefused) {
  Blobs blobs;
  expect_refused_when_damaged(blobs, blobs.shipment,
                              [&](const Bytes& blob) { (void)blobs.shard.append(blob); });
}

TEST(BlobDamage, OfARequestIsRefused) {
  Blobs blobs;
  expect_refused_when_damaged(blobs, blobs.request,
                              [&](const Bytes& blob) { (void)blobs.shard.exchange(blob); });
}

TEST(BlobDamage, OfAnAnswerIsRefused) {
  Blobs blobs;
  const Bytes answer = copy_of(blobs.shard.exchange(blobs.request));
  expect_refused_when_damaged(blobs, answer,
                              [&](const Bytes& blob) { blobs.client.answer(0, blob); });
  EXPECT_THROW(blobs.client.answer(0, answer), std::invalid_argument)
      << "the client has had this answer";
}

/// The size and the checksum in the header are right, but the answer is too short or too long for
/// the batches of its draws.
TEST(BlobDamage, AnAnswerOfAnotherSizeThanItsBatchesNeedIsRefused) {
  Blobs blobs;
  const Bytes answer = copy_of(blobs.shard.exchange(blobs.request));
  const std::string before = blobs.state();
  for (const std::ptrdiff_t more : {-64, -1, 1, 64}) {
    Bytes resized = answer;
    resized.resize(static_cast<std::size_t>(static_cast<std::ptrdiff_t>(answer.size()) + more));
    fix_checksum(resized);
    EXPECT_THROW(blobs.client.answer(0, resized), std::invalid_argument) << more << " bytes more";
    EXPECT_EQ(blobs.state(), before);
  }
  EXPECT_NO_THROW(blobs.client.answer(0, answer));
}

TEST(BlobDamage, OfAnotherKindSchemaOrWindowIsRefused) {
  Blobs blobs;
  EXPECT_THROW((void)blobs.shard.append(blobs.request), std::invalid_argument);
  EXPECT_THROW((void)blobs.shard.exchange(blobs.shipment), std::invalid_argument);
  World world{{.discount = true, .states = true}};
  ReplayBuffer other_schema(world.schema(), Blobs::options(Blobs::Items::Sequences));
  EXPECT_THROW((void)ReplayShard(other_schema).append(blobs.shipment), std::invalid_argument);
  Options other = Blobs::options(Blobs::Items::Sequences);
  other.window = Sequences{.length = 3, .period = 3};
  ReplayBuffer other_window(blobs.world.schema(), other);
  EXPECT_THROW((void)ReplayShard(other_window).append(blobs.shipment), std::invalid_argument);
}

TEST(BlobDamage, ARequestWithInvalidDrawOptionsIsRefused) {
  Blobs blobs;
  const std::string before = blobs.state();
  // The distances of these bytes from the end, where the last draw is:
  // `DrawRequest::unique_frames`, which may be 0 or 1, and the second byte of `Targets::n_step`,
  // which then is above the window's.
  for (const std::size_t from_end : {12U, 7U}) {
    Bytes request = blobs.request;
    request.at(request.size() - from_end) = std::byte{2};
    fix_checksum(request);
    EXPECT_THROW((void)blobs.shard.exchange(request), std::invalid_argument) << from_end;
    EXPECT_EQ(blobs.state(), before);
  }
}

TEST(BlobDamage, AShipmentWhoseHeaderHasAnotherNumberOfStepsIsRefused) {
  Blobs blobs;
  const std::string before = blobs.state();
  Bytes shipment = blobs.shipment;
  remote::BlobHeader head;
  std::memcpy(&head, shipment.data(), sizeof(head));
  ++head.steps;
  std::memcpy(shipment.data(), &head, sizeof(head));
  fix_checksum(shipment);
  EXPECT_THROW((void)blobs.shard.append(shipment), std::invalid_argument);
  EXPECT_EQ(blobs.state(), before);
}

/// A hostile or broken sender may send damaged blobs with correct checksums. The shard and the
/// client may accept or refuse such a blob, but must not read or write outside of it, and the
/// buffer must stay consistent.
TEST(BlobDamage, WithACorrectChecksumHarmsNothing) {
  Rng random(11);
  for (std::size_t i = 0; i < scaled(3000, 300); ++i) {
    Blobs blobs;
    const Bytes answer = copy_of(blobs.shard.exchange(blobs.request));
    for (const Bytes* const whole :
         std::array<const Bytes*, 3>{&blobs.shipment, &blobs.request, &answer}) {
      Bytes damaged = *whole;
      for (std::size_t hits = 1 + random.next() % 4; hits-- != 0;) {
        // Half of the changes are within the first 200 bytes, which hold headers and counts.
        const std::size_t range =
            random.next() % 2 == 0 ? std::min<std::size_t>(200, whole->size()) : whole->size();
        damaged[random.next() % range] = static_cast<std::byte>(random.next());
      }
      if (random.next() % 8 == 0) {
        damaged.resize(random.next() % (whole->size() + 64));
      }
      fix_checksum(damaged);
      try {
        if (whole == &blobs.shipment) {
          (void)blobs.shard.append(damaged, 0ns);
        } else if (whole == &blobs.request) {
          // A draw of very many items would be refused in the end, but takes too long for a test.
          std::uint64_t items = 0;
          std::memcpy(&items,
                      damaged.data() + damaged.size() -
                          std::min(sizeof(remote::DrawRequest), damaged.size()),
                      std::min<std::size_t>(8, damaged.size()));
          if (items < 4096) {
            (void)blobs.shard.exchange(damaged);
          }
        } else {
          blobs.client.answer(0, damaged);
        }
      } catch (const std::invalid_argument&) {  // NOLINT(bugprone-empty-catch): an allowed answer.
      } catch (const std::bad_alloc&) {         // NOLINT(bugprone-empty-catch): an allowed answer.
      } catch (const std::runtime_error&) {     // NOLINT(bugprone-empty-catch): an allowed answer.
      }
    }
    const std::size_t items = blobs.replay.size();
    ASSERT_EQ(items, blobs.replay.stats().resident_steps);
    (void)as_lvalue(blobs.replay.sampler()).sample(16, {.timeout = 0ns});
  }
}

}  // namespace
}  // namespace reprise::test
