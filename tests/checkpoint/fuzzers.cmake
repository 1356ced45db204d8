# fuzz_checkpoint_reader, a libFuzzer program: the floor of checkpoints compiled once more, with
# coverage for the fuzzer and without checksums in its way.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "REPRISE_BUILD_FUZZERS needs clang; the compiler is ${CMAKE_CXX_COMPILER_ID}")
endif()

get_target_property(reprise_sources reprise SOURCES)
list(FILTER reprise_sources INCLUDE REGEX "src/checkpoint/")
list(TRANSFORM reprise_sources PREPEND "${PROJECT_SOURCE_DIR}/" REGEX "^src/")
list(
  APPEND
  reprise_sources
  ${CMAKE_CURRENT_SOURCE_DIR}/checkpoint/contents.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/checkpoint/memory_file_system.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/checkpoint/packed_files.cpp)

add_executable(fuzz_checkpoint_reader ${CMAKE_CURRENT_SOURCE_DIR}/checkpoint/fuzz_reader.cpp
                                      ${reprise_sources})
target_include_directories(
  fuzz_checkpoint_reader PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                                 ${CMAKE_CURRENT_SOURCE_DIR})
target_include_directories(fuzz_checkpoint_reader SYSTEM PRIVATE ${REPRISE_XXHASH_INCLUDE_DIR})
target_compile_features(fuzz_checkpoint_reader PRIVATE cxx_std_20)
target_link_libraries(fuzz_checkpoint_reader PRIVATE Threads::Threads TBB::tbb reprise::zstd)
reprise_own_target(fuzz_checkpoint_reader)
target_compile_definitions(fuzz_checkpoint_reader
                           PRIVATE FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION=1)
target_compile_options(fuzz_checkpoint_reader PRIVATE -fsanitize=fuzzer)
target_link_options(fuzz_checkpoint_reader PRIVATE -fsanitize=fuzzer)

# A short run. What a longer one finds worth keeping goes to a folder of its own first:
#   fuzz_checkpoint_reader -runs=100000000 NEW_FOLDER tests/checkpoint/fuzz_corpus
set(found ${CMAKE_CURRENT_BINARY_DIR}/fuzz_found)
file(MAKE_DIRECTORY ${found})
add_test(NAME fuzz.checkpoint_reader
         COMMAND fuzz_checkpoint_reader -runs=50000 -seed=1 -max_len=8192 ${found}
                 ${CMAKE_CURRENT_SOURCE_DIR}/checkpoint/fuzz_corpus)
set_tests_properties(fuzz.checkpoint_reader PROPERTIES LABELS fuzz)

# Writes the corpus anew: make_fuzz_corpus tests/checkpoint/fuzz_corpus.
add_executable(make_fuzz_corpus ${CMAKE_CURRENT_SOURCE_DIR}/checkpoint/make_fuzz_corpus.cpp
                                checkpoint/contents.cpp checkpoint/memory_file_system.cpp
                                checkpoint/packed_files.cpp)
target_link_libraries(make_fuzz_corpus PRIVATE reprise_test_support)
reprise_own_target(make_fuzz_corpus)
