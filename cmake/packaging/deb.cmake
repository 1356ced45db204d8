# Debian packages of the shared library, made by cpack in the build folder of the preset deb.
set(reprise_soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(reprise_revision 1)

set(CPACK_PACKAGE_NAME reprise)
set(CPACK_PACKAGE_CONTACT "The authors of reprise <reprise@packages.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Experience replay buffer for reinforcement learning")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL library development)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${reprise_revision})

set(reprise_about
    "Many actor threads append steps without waiting for each other, while learner\n\
threads draw prioritized batches and write priorities back.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libreprise${reprise_soversion})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/triggers)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "${reprise_about}\nThis package has the shared library.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libreprise-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libreprise${reprise_soversion} (= ${PROJECT_VERSION}-${reprise_revision})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "${reprise_about}\nThis package has the headers, and files for CMake and pkg-config.")

# Files that each Debian package has. SOURCE_DATE_EPOCH sets the date of the entry.
string(TIMESTAMP reprise_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(reprise_changelog ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian)
file(
  WRITE ${reprise_changelog}
  "reprise (${PROJECT_VERSION}-${reprise_revision}) unstable; urgency=medium\n\n"
  "  * CHANGELOG.md of the sources says what changed.\n\n"
  " -- ${CPACK_PACKAGE_CONTACT}  ${reprise_date}\n")
execute_process(COMMAND gzip -9nkf ${reprise_changelog} COMMAND_ERROR_IS_FATAL ANY)
foreach(component library development)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_MULTIARCH same)
  install(
    FILES ${CMAKE_CURRENT_LIST_DIR}/copyright ${reprise_changelog}.gz
    DESTINATION share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}
    COMPONENT ${component})
endforeach()

include(CPack)
