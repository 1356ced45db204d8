set(reprise_sanitizer_ignore ${CMAKE_CURRENT_LIST_DIR}/sanitizer_ignore.txt)

# reprise_own_target(TARGET): how code of this project is compiled. All of it is PRIVATE: nothing
# here reaches a target that links to reprise.
function(reprise_own_target target)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(
    ${target}
    PRIVATE -Wall
            -Wextra
            -Wpedantic
            -Wconversion
            -Wsign-conversion
            -Wshadow
            $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
            $<$<BOOL:${REPRISE_WERROR}>:-Werror>
            # Flags of a project that embeds reprise come before these, and NaN has to be seen.
            -fno-fast-math
            # A fused multiply-add rounds once where two instructions round twice, so results would
            # depend on which instructions the machine has.
            -ffp-contract=off
            # Position-independent code may then still inline its own functions.
            -fno-semantic-interposition)
  if(REPRISE_DCHECK)
    target_compile_definitions(${target} PRIVATE REPRISE_DCHECK=1 _GLIBCXX_ASSERTIONS=1)
  endif()
  if(REPRISE_SCHEDULE_POINTS)
    # Headers that tests share with the library differ by it, so all targets have it or none.
    target_compile_definitions(${target} PRIVATE REPRISE_SCHEDULE_POINTS=1)
  endif()
  if(REPRISE_SANITIZE)
    target_compile_options(
      ${target} PRIVATE -fsanitize=${REPRISE_SANITIZE} -fno-sanitize-recover=all
                        -fno-omit-frame-pointer
                        $<$<CXX_COMPILER_ID:Clang>:-fsanitize-ignorelist=${reprise_sanitizer_ignore}>)
    target_link_options(${target} PRIVATE -fsanitize=${REPRISE_SANITIZE})
  endif()
endfunction()
