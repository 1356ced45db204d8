#pragma once

namespace reprise::test {

/// Distributions ship oneTBB without instrumentation: ThreadSanitizer sees its workers' writes but
/// not how they are ordered, and reports every parallel gather. With an instrumented one, see
/// stress/gather_under_tsan, nothing has to be left out.
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

/// AddressSanitizer keeps what was freed for a while: up to 256 MiB.
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
