# Libraries beside reprise, so that the buffer needs nothing of theirs: each has a folder of src and
# public headers.

# reprise_add_part(NAME HEADERS...): reprise::NAME of src/NAME.
function(reprise_add_part name)
  set(target reprise_${name})
  file(GLOB sources CONFIGURE_DEPENDS src/${name}/*.cpp)
  add_library(${target} ${sources})
  add_library(reprise::${name} ALIAS ${target})
  list(TRANSFORM ARGN PREPEND include/reprise/ OUTPUT_VARIABLE headers)
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${headers})
  target_include_directories(${target} PRIVATE src)
  # They include headers of src, which include headers of these.
  target_link_libraries(
    ${target}
    PUBLIC reprise::reprise
    PRIVATE Threads::Threads TBB::tbb hwy::hwy $<BUILD_INTERFACE:Boost::headers>)
  set_target_properties(
    ${target}
    PROPERTIES EXPORT_NAME ${name}
               POSITION_INDEPENDENT_CODE ON
               # A program's own path to libraries is not asked for the buffer's.
               INSTALL_RPATH "$ORIGIN"
               VERSION ${PROJECT_VERSION}
               SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
               VERIFY_INTERFACE_HEADER_SETS ${REPRISE_BUILD_TESTS})
  if(NOT REPRISE_INSTALL)
    # A project that embeds reprise compiles the parts that it links.
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  reprise_own_target(${target})
endfunction()

reprise_add_part(device device_ring.hpp)
target_link_libraries(reprise_device PRIVATE ${CMAKE_DL_LIBS})
reprise_add_part(process guest.hpp host.hpp)
# A host and its guests are of one version.
target_compile_definitions(reprise_process PRIVATE REPRISE_VERSION="${PROJECT_VERSION}")
reprise_add_part(remote remote.hpp)
set(reprise_parts reprise_device reprise_process reprise_remote)

if(REPRISE_METRICS)
  find_package(prometheus-cpp CONFIG REQUIRED)
  reprise_add_part(metrics metrics.hpp)
  target_link_libraries(reprise_metrics PUBLIC prometheus-cpp::core)
  list(APPEND reprise_parts reprise_metrics)
endif()
