# Defines reprise::lz4 and reprise::zstd. The CMake packages of LZ4 and zstd are not everywhere, and
# name their targets by how they were built. Also installed, for whoever links an archive of reprise.
include(FindPackageHandleStandardArgs)

set(reprise_compression_needed "")
foreach(name lz4 zstd)
  string(TOUPPER REPRISE_${name} variable)
  find_path(${variable}_INCLUDE_DIR ${name}.h)
  find_library(${variable}_LIBRARY ${name})
  mark_as_advanced(${variable}_INCLUDE_DIR ${variable}_LIBRARY)
  list(APPEND reprise_compression_needed ${variable}_LIBRARY ${variable}_INCLUDE_DIR)
  if(${variable}_LIBRARY AND ${variable}_INCLUDE_DIR AND NOT TARGET reprise::${name})
    add_library(reprise::${name} UNKNOWN IMPORTED)
    set_target_properties(
      reprise::${name} PROPERTIES IMPORTED_LOCATION "${${variable}_LIBRARY}"
                                  INTERFACE_INCLUDE_DIRECTORIES "${${variable}_INCLUDE_DIR}")
  endif()
endforeach()
find_package_handle_standard_args(reprise_compression REQUIRED_VARS ${reprise_compression_needed})
