#pragma once

namespace reprise::test {

/// Whether ThreadSanitizer reports every parallel gather. Distributions ship oneTBB without
/// instrumentation, so ThreadSanitizer sees what its threads write but not how they are ordered.
/// With an instrumented oneTBB (see stress/gather_under_tsan) no test has to be left out.
#if defined(REPRISE_INSTRUMENTED_TBB)
inline constexpr bool kThreadSanitizer = false;
#elif defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#else
inline constexpr bool kThreadSanitizer = false;
#endif

/// Whether this build has AddressSanitizer, which keeps up to 256 MiB of freed memory for a while.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#else
inline constexpr bool kAddressSanitizer = false;
#endif

}  // namespace reprise::test
