#include <reprise/writer.hpp>

#include <cstdint>

// A writer returns a reference to int32 for a column of int32.
void write(reprise::Writer& writer, reprise::ScalarColumn<std::int32_t> action) {
#ifdef WITH_MISTAKE
  float& place = writer.now(action);
#else
  std::int32_t& place = writer.now(action);
#endif
  place = 1;
}
