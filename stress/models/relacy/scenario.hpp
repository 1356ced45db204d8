#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::model {

struct Outcome {
  bool passed = false;
  bool complete = false;  ///< Whether the search saw every schedule.
  std::uint64_t runs = 0;
  std::string failure;  ///< What failed, in a few words; empty if the run passed.
  std::string trace;    ///< The steps of the run that failed.
};

/// A few threads of the protocol, and the conditions that have to hold.
struct Scenario {
  std::string family;
  std::string name;
  Outcome (*randomly)(std::uint64_t runs);
  Outcome (*exhaustively)(std::uint64_t at_most);  ///< Null if there are too many schedules.
};

using Scenarios = std::vector<Scenario>;

void add_doorbell(Scenarios& scenarios);
void add_lists(Scenarios& scenarios);
void add_pins(Scenarios& scenarios);
void add_lifetime(Scenarios& scenarios);
void add_handover(Scenarios& scenarios);
void add_sleep(Scenarios& scenarios);
void add_gate(Scenarios& scenarios);
void add_queue(Scenarios& scenarios);
void add_order(Scenarios& scenarios);
void add_flags(Scenarios& scenarios);
void add_versions(Scenarios& scenarios);
void add_ring(Scenarios& scenarios);

}  // namespace reprise::model
