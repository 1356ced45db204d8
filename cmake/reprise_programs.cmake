# For the folders of tests and benchmarks.

# reprise_add_tests(FOLDER SOURCES...): one program FOLDER_tests of GoogleTest cases, each a ctest
# with the label FOLDER. Tests may include internal headers and tests/testing.
function(reprise_add_tests folder)
  add_executable(${folder}_tests ${ARGN})
  target_link_libraries(${folder}_tests PRIVATE reprise_testing)
  target_precompile_headers(${folder}_tests REUSE_FROM reprise_testing)
  reprise_own_target(${folder}_tests)
  gtest_discover_tests(
    ${folder}_tests
    TEST_PREFIX ${folder}.
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${folder})
endfunction()

# reprise_add_folder(FOLDER SOURCES...): reprise_add_tests of FOLDER/*_test.cpp and these sources.
function(reprise_add_folder folder)
  file(GLOB tests RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ${folder}/*_test.cpp)
  reprise_add_tests(${folder} ${tests} ${ARGN})
endfunction()
