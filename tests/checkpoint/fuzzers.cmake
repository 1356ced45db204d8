# Builds fuzz_checkpoint_reader and fuzz_checkpoint_states, libFuzzer programs. The code that reads
# checkpoints and states is compiled again, with coverage for the fuzzer and without checksums.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "REPRISE_BUILD_FUZZERS needs clang; the compiler is ${CMAKE_CXX_COMPILER_ID}")
endif()

get_target_property(reprise_sources reprise SOURCES)
list(FILTER reprise_sources INCLUDE REGEX "src/(record|checkpoint)/")
list(TRANSFORM reprise_sources PREPEND "${PROJECT_SOURCE_DIR}/" REGEX "^src/")

add_library(
  reprise_fuzz_floor STATIC
  ${reprise_sources} checkpoint/contents.cpp record/memory_file_system.cpp
  checkpoint/packed_file_system.cpp checkpoint/packed_files.cpp)
target_include_directories(
  reprise_fuzz_floor PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                            ${CMAKE_CURRENT_SOURCE_DIR})
target_include_directories(reprise_fuzz_floor SYSTEM PRIVATE ${REPRISE_XXHASH_INCLUDE_DIR})
target_compile_features(reprise_fuzz_floor PUBLIC cxx_std_20)
target_link_libraries(reprise_fuzz_floor PUBLIC Threads::Threads TBB::tbb reprise::zstd)
target_compile_definitions(reprise_fuzz_floor PUBLIC FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION=1)
target_compile_options(reprise_fuzz_floor PUBLIC -fsanitize=fuzzer-no-link)
target_link_options(reprise_fuzz_floor PUBLIC -fsanitize=fuzzer-no-link)
reprise_own_target(reprise_fuzz_floor)

add_executable(fuzz_checkpoint_reader checkpoint/fuzz_reader.cpp)
# The decoders use strategies and schemas, which come from the library as it was built.
add_executable(
  fuzz_checkpoint_states
  checkpoint/fuzz_states.cpp
  ${PROJECT_SOURCE_DIR}/src/save/stored_options.cpp
  ${PROJECT_SOURCE_DIR}/src/save/stored_shard.cpp
  ${PROJECT_SOURCE_DIR}/src/schema/schema.cpp
  ${PROJECT_SOURCE_DIR}/src/save/stored_buffer.cpp)
target_link_libraries(fuzz_checkpoint_states PRIVATE reprise_fuzz_floor reprise::reprise)

# The tests are short runs. A longer run writes its findings to a folder of its own, from which the
# useful ones are copied:
#   fuzz_checkpoint_reader -runs=100000000 -max_len=3000 NEW_FOLDER tests/checkpoint/fuzz_corpus
# With -malloc_limit_mb the fuzzer finds code that allocates by an unchecked length. fuzz_corpus has
# whole checkpoints of each version of the format; fuzz_seeds has inputs that reach code which those
# do not reach.
foreach(subject reader states)
  set(fuzzer fuzz_checkpoint_${subject})
  target_link_libraries(${fuzzer} PRIVATE reprise_fuzz_floor)
  target_link_options(${fuzzer} PRIVATE -fsanitize=fuzzer)
  reprise_own_target(${fuzzer})
  set(found ${CMAKE_CURRENT_BINARY_DIR}/fuzz_found_${subject})
  set(inputs ${CMAKE_CURRENT_SOURCE_DIR}/checkpoint/fuzz_seeds/${subject})
  if(subject STREQUAL reader)
    list(APPEND inputs ${CMAKE_CURRENT_SOURCE_DIR}/checkpoint/fuzz_corpus)
  endif()
  file(MAKE_DIRECTORY ${found})
  add_test(NAME fuzz.checkpoint_${subject} COMMAND ${fuzzer} -runs=50000 -seed=1 -max_len=3000
                                                   -malloc_limit_mb=8 ${found} ${inputs})
  set_tests_properties(fuzz.checkpoint_${subject} PROPERTIES LABELS fuzz)
endforeach()

# make_fuzz_corpus writes tests/checkpoint/fuzz_corpus anew. make_fuzz_seeds writes the same
# contents with the small blocks of a fuzzer.
add_executable(make_fuzz_corpus checkpoint/make_fuzz_corpus.cpp checkpoint/contents.cpp
                                record/memory_file_system.cpp checkpoint/packed_files.cpp)
target_link_libraries(make_fuzz_corpus PRIVATE reprise_testing)
reprise_own_target(make_fuzz_corpus)
add_executable(make_fuzz_seeds checkpoint/make_fuzz_corpus.cpp)
target_link_libraries(make_fuzz_seeds PRIVATE reprise_fuzz_floor)
reprise_own_target(make_fuzz_seeds)
