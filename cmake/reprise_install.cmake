# Installs the library, its headers, a CMake package and a pkg-config file, all relocatable.
include(CMakePackageConfigHelpers)

set(reprise_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/reprise)
set(reprise_pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

get_target_property(reprise_type reprise TYPE)
if(reprise_type STREQUAL "SHARED_LIBRARY")
  set(REPRISE_IS_SHARED ON)
  # No Requires.private: pkg-config would ask for the files of these for every compilation.
  set(REPRISE_PC_REQUIRES "")
else()
  # Whoever links the archive links what it was built on, without having to say --static.
  set(REPRISE_IS_SHARED OFF)
  set(REPRISE_PC_REQUIRES "Requires: tbb, libhwy, liblz4, libzstd")
endif()

install(
  TARGETS reprise ${reprise_parts}
  EXPORT reprise-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(
  EXPORT reprise-targets
  NAMESPACE reprise::
  DESTINATION ${reprise_cmake_dir}
  COMPONENT development)

configure_package_config_file(cmake/reprise-config.cmake.in reprise-config.cmake
                              INSTALL_DESTINATION ${reprise_cmake_dir})
write_basic_package_version_file(reprise-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/reprise-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/reprise-config-version.cmake
              ${CMAKE_CURRENT_LIST_DIR}/Findreprise_compression.cmake
        DESTINATION ${reprise_cmake_dir}
        COMPONENT development)

# Paths in the pkg-config file start from the file itself, so that `cmake --install --prefix` and a
# moved tree both work; absolute install folders stay absolute.
file(RELATIVE_PATH reprise_up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
cmake_path(APPEND REPRISE_PC_PREFIX "\${pcfiledir}" "${reprise_up}")
string(REGEX REPLACE "/$" "" REPRISE_PC_PREFIX "${REPRISE_PC_PREFIX}")
cmake_path(APPEND REPRISE_PC_LIBDIR "\${prefix}" "${CMAKE_INSTALL_LIBDIR}")
cmake_path(APPEND REPRISE_PC_INCLUDEDIR "\${prefix}" "${CMAKE_INSTALL_INCLUDEDIR}")
configure_file(cmake/reprise.pc.in reprise.pc @ONLY)
install(
  FILES ${CMAKE_CURRENT_BINARY_DIR}/reprise.pc
  DESTINATION ${reprise_pkgconfig_dir}
  COMPONENT development)

if(REPRISE_DEBIAN)
  include(cmake/packaging/deb.cmake)
endif()
