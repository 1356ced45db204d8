# Builds fuzz_ring, a libFuzzer program. The library that serves guests is compiled again, with
# coverage for the fuzzer; the other libraries are used as they were built.
get_target_property(reprise_sources reprise_process SOURCES)

add_executable(fuzz_ring process/fuzz_ring.cpp ${reprise_sources})
target_include_directories(
  fuzz_ring PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                    ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(fuzz_ring PRIVATE reprise::reprise)
target_compile_definitions(fuzz_ring PRIVATE REPRISE_VERSION="${PROJECT_VERSION}")
target_compile_options(fuzz_ring PRIVATE -fsanitize=fuzzer)
target_link_options(fuzz_ring PRIVATE -fsanitize=fuzzer)
reprise_own_target(fuzz_ring)
add_test(NAME fuzz.ring COMMAND fuzz_ring -runs=5000 -seed=1 -max_len=1000)
set_tests_properties(fuzz.ring PROPERTIES LABELS fuzz)
