#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::model {

/// Rules of the protocol. Each mutant breaks one rule in the code of the scenarios.
enum class Rule : std::uint8_t {
  None,
  RowBeforePublish,
  PublishBeforeRing,
  BellClearedBeforePublishedIsRead,
  LinkReadBeforeTheAnswer,
  RungBeforePush,
  ClosedTravelsInTheBell,
  ClosedIsNoFlagOfItsOwn,
  NothingAfterTheClosingRing,
  CountedBeforePublish,
  TagInTheFreeList,
  CursorBeforePush,
  RingBeforeHandOver,
  FreshChunksByExchange,
  PinnedUnderTheLock,
  RetiredAndPinsInOneWord,
  RetiredKnowsOfPins,
  ReadBeforeUnpin,
  PlainUnpinUnderTheLock,
  RetiredUnpinsByTheWord,
  PinsResetBeforePush,
  PublishedResetBeforePush,
  TurnEndsWithTheChunk,
  RegisterBeforeLooking,
  TicketBeforeLooking,
  ProgressBeforeWake,
  FlagBeforeWake,
  DrainToTheEnd,
  EndLookedAtFirst,
  HorizonBeforeDrain,
  OddBeforeTheFirstWord,
  OneWriterAtATime,
  VersionReadAgain,
  OddIsNotRead,
  EvenAfterTheLastWord,
  ReadBeforeConsume,
  PublishBeforeAnswer,
  DeathBeforeTheLastLook,
  Count,
};

struct RuleMutant {
  Rule rule;
  const char* broken;  ///< Describes what the mutant does.
};

inline constexpr std::array kRuleMutants{
    RuleMutant{Rule::RowBeforePublish, "publish before the row is written"},
    RuleMutant{Rule::PublishBeforeRing, "ring before publishing"},
    RuleMutant{Rule::BellClearedBeforePublishedIsRead, "published read before the bell is cleared"},
    RuleMutant{Rule::LinkReadBeforeTheAnswer, "link read after the bell was answered"},
    RuleMutant{Rule::RungBeforePush, "push before the bell is set"},
    RuleMutant{Rule::ClosedTravelsInTheBell, "closed judged by published == capacity"},
    RuleMutant{Rule::ClosedIsNoFlagOfItsOwn, "closed as a flag of its own"},
    RuleMutant{Rule::NothingAfterTheClosingRing, "chunk touched after the closing ring"},
    RuleMutant{Rule::CountedBeforePublish, "step counted as committed after its ring"},
    RuleMutant{Rule::TagInTheFreeList, "no tag in the free list"},
    RuleMutant{Rule::CursorBeforePush, "cursor written after the hand-over"},
    RuleMutant{Rule::RingBeforeHandOver, "ring after the hand-over of an open chunk"},
    RuleMutant{Rule::FreshChunksByExchange, "fresh chunks taken by load and store"},
    RuleMutant{Rule::PinnedUnderTheLock, "pin after the unlock"},
    RuleMutant{Rule::RetiredAndPinsInOneWord, "retired and pins in two words"},
    RuleMutant{Rule::RetiredKnowsOfPins, "retired chunk freed despite pins"},
    RuleMutant{Rule::ReadBeforeUnpin, "row read after the unpin"},
    RuleMutant{Rule::PlainUnpinUnderTheLock, "plain unpin without the lock"},
    RuleMutant{Rule::RetiredUnpinsByTheWord, "plain unpin of a retired chunk"},
    RuleMutant{Rule::PinsResetBeforePush, "pin word reset after the push"},
    RuleMutant{Rule::PublishedResetBeforePush, "published reset after the push"},
    RuleMutant{Rule::TurnEndsWithTheChunk, "turn of a chunk kept when it is retired"},
    RuleMutant{Rule::RegisterBeforeLooking, "register after looking"},
    RuleMutant{Rule::TicketBeforeLooking, "ticket taken after looking"},
    RuleMutant{Rule::ProgressBeforeWake, "wake before the progress"},
    RuleMutant{Rule::FlagBeforeWake, "close wakes before it sets the flag"},
    RuleMutant{Rule::DrainToTheEnd, "last look with a bound on its work"},
    RuleMutant{Rule::EndLookedAtFirst, "end looked at after the queue"},
    RuleMutant{Rule::HorizonBeforeDrain, "horizon read after ingesting"},
    RuleMutant{Rule::OddBeforeTheFirstWord, "word of a step stored before its version is odd"},
    RuleMutant{Rule::OneWriterAtATime, "version made odd by load and store"},
    RuleMutant{Rule::VersionReadAgain, "version of a step read once"},
    RuleMutant{Rule::OddIsNotRead, "step read while its version is odd"},
    RuleMutant{Rule::EvenAfterTheLastWord, "word of a step stored after its version is even"},
    RuleMutant{Rule::ReadBeforeConsume, "row of a ring read after it was given back"},
    RuleMutant{Rule::PublishBeforeAnswer, "commit of a guest answered before its publish"},
    RuleMutant{Rule::DeathBeforeTheLastLook, "last look at a ring before its guest is seen dead"},
};
static_assert(kRuleMutants.size() + 1 == static_cast<std::size_t>(Rule::Count));

/// The rule that is broken at present.
inline Rule broken_rule = Rule::None;

[[nodiscard]] inline bool broken(Rule rule) noexcept {
  return broken_rule == rule;
}

}  // namespace reprise::model
