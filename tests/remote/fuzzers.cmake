# Builds fuzz_remote_blobs, a libFuzzer program. The library that reads blobs is compiled again,
# with coverage for the fuzzer; the other libraries are used as they were built.
get_target_property(reprise_sources reprise_remote SOURCES)

add_executable(fuzz_remote_blobs remote/fuzz_blobs.cpp testing/worlds/world.cpp ${reprise_sources})
target_include_directories(
  fuzz_remote_blobs PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                            ${CMAKE_CURRENT_SOURCE_DIR})
target_include_directories(fuzz_remote_blobs SYSTEM PRIVATE ${REPRISE_XXHASH_INCLUDE_DIR})
target_link_libraries(fuzz_remote_blobs PRIVATE reprise::reprise)
target_compile_options(fuzz_remote_blobs PRIVATE -fsanitize=fuzzer)
target_link_options(fuzz_remote_blobs PRIVATE -fsanitize=fuzzer)
reprise_own_target(fuzz_remote_blobs)

# An input of zeros leaves the blobs intact, so the fuzzer needs no seeds.
set(found ${CMAKE_CURRENT_BINARY_DIR}/fuzz_found_remote)
file(MAKE_DIRECTORY ${found})
add_test(NAME fuzz.remote_blobs COMMAND fuzz_remote_blobs -runs=5000 -seed=1 -max_len=400
                                        -malloc_limit_mb=64 ${found})
set_tests_properties(fuzz.remote_blobs PROPERTIES LABELS fuzz)
