#pragma once

#include <cstdio>
#include <cstdlib>

/// Builds with REPRISE_DCHECK stop where an invariant of the library does not hold. REPRISE_ASSERT
/// never checks user input, because wrong input is an exception.
#if defined(REPRISE_DCHECK)
#define REPRISE_ASSERT(condition)                                                            \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: invariant broken: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
#else
#define REPRISE_ASSERT(condition) static_cast<void>(0)
#endif
