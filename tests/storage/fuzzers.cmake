# Builds fuzz_frames and fuzz_gather, libFuzzer programs. The code that reads compressed frames is
# compiled again, with coverage for the fuzzer; the rest of the library is used as it was built.
set(reprise_frames ${PROJECT_SOURCE_DIR}/src/storage/frame_codec.cpp)
add_executable(fuzz_frames storage/fuzz_frames.cpp ${reprise_frames})
add_executable(fuzz_gather window/fuzz_gather.cpp ${reprise_frames}
                           ${PROJECT_SOURCE_DIR}/src/window/gather.cpp)
foreach(subject frames gather)
  set(fuzzer fuzz_${subject})
  target_include_directories(${fuzzer} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${fuzzer} PRIVATE reprise::reprise reprise::lz4)
  target_compile_options(${fuzzer} PRIVATE -fsanitize=fuzzer)
  target_link_options(${fuzzer} PRIVATE -fsanitize=fuzzer)
  reprise_own_target(${fuzzer})
  add_test(NAME fuzz.${subject} COMMAND ${fuzzer} -runs=20000 -seed=1 -max_len=5000)
  set_tests_properties(fuzz.${subject} PROPERTIES LABELS fuzz)
endforeach()
