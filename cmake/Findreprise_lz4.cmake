# Defines reprise::lz4. The CMake package of LZ4 is not everywhere, and names its target by how it
# was built. Also installed, for whoever links an archive of reprise.
include(FindPackageHandleStandardArgs)

find_path(REPRISE_LZ4_INCLUDE_DIR lz4.h)
find_library(REPRISE_LZ4_LIBRARY lz4)
mark_as_advanced(REPRISE_LZ4_INCLUDE_DIR REPRISE_LZ4_LIBRARY)
find_package_handle_standard_args(reprise_lz4 REQUIRED_VARS REPRISE_LZ4_LIBRARY
                                                             REPRISE_LZ4_INCLUDE_DIR)

if(reprise_lz4_FOUND AND NOT TARGET reprise::lz4)
  add_library(reprise::lz4 UNKNOWN IMPORTED)
  set_target_properties(
    reprise::lz4 PROPERTIES IMPORTED_LOCATION "${REPRISE_LZ4_LIBRARY}"
                             INTERFACE_INCLUDE_DIRECTORIES "${REPRISE_LZ4_INCLUDE_DIR}")
endif()
