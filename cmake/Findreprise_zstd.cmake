# Defines reprise::zstd. The CMake package of zstd is not everywhere, and names its target by how it
# was built. Also installed, for whoever links an archive of reprise.
include(FindPackageHandleStandardArgs)

find_path(REPRISE_ZSTD_INCLUDE_DIR zstd.h)
find_library(REPRISE_ZSTD_LIBRARY zstd)
mark_as_advanced(REPRISE_ZSTD_INCLUDE_DIR REPRISE_ZSTD_LIBRARY)
find_package_handle_standard_args(reprise_zstd REQUIRED_VARS REPRISE_ZSTD_LIBRARY
                                                             REPRISE_ZSTD_INCLUDE_DIR)

if(reprise_zstd_FOUND AND NOT TARGET reprise::zstd)
  add_library(reprise::zstd UNKNOWN IMPORTED)
  set_target_properties(
    reprise::zstd PROPERTIES IMPORTED_LOCATION "${REPRISE_ZSTD_LIBRARY}"
                             INTERFACE_INCLUDE_DIRECTORIES "${REPRISE_ZSTD_INCLUDE_DIR}")
endif()
