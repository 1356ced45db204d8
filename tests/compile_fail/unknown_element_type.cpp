#include <reprise/schema.hpp>

// `long double` is not one of the thirteen element types of fields.
void declare(reprise::Schema& schema) {
#ifdef WITH_MISTAKE
  static_cast<void>(schema.column<long double>("action"));
#else
  static_cast<void>(schema.column<double>("action"));
#endif
}
