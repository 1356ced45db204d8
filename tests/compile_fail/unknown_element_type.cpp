#include <reprise/schema.hpp>

// A field holds one of the thirteen element types.
void declare(reprise::Schema& schema) {
#ifdef WITH_MISTAKE
  static_cast<void>(schema.column<long double>("action"));
#else
  static_cast<void>(schema.column<double>("action"));
#endif
}
