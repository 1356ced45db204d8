#include <reprise/writer.hpp>

#include <cstdint>

// Only observations have a next value.
void write(reprise::Writer& writer, reprise::ScalarColumn<std::int32_t> action) {
#ifdef WITH_MISTAKE
  writer.next(action) = 1;
#else
  writer.now(action) = 1;
#endif
}
