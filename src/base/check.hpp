#pragma once

#include <cstdio>
#include <cstdlib>

/// REPRISE_DCHECK builds stop where an invariant of ours does not hold. It never guards against
/// what a user can pass in: that is an exception.
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
