# cmake -D ROOT=... -P steady_clock_only.cmake: the library measures time with std::chrono's steady
# clock alone, so that setting the wall clock changes no timeout.
file(GLOB_RECURSE sources ${ROOT}/src/*.[ch]pp ${ROOT}/include/*.hpp)
list(LENGTH sources count)
if(count LESS 50)
  message(FATAL_ERROR "only ${count} sources in ${ROOT}: this looks at nothing")
endif()
foreach(source IN LISTS sources)
  file(STRINGS ${source} uses
       REGEX "system_clock|high_resolution_clock|CLOCK_REALTIME|gettimeofday|FUTEX_CLOCK_REALTIME|[^_a-z]time\\(nullptr")
  if(uses)
    message(FATAL_ERROR "${source} reads a clock that can be set: ${uses}")
  endif()
endforeach()
