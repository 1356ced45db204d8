# reprise::metrics, a library of its own, so that the buffer needs nothing of Prometheus.
find_package(prometheus-cpp CONFIG REQUIRED)

add_library(reprise_metrics)
add_library(reprise::metrics ALIAS reprise_metrics)
target_sources(
  reprise_metrics
  PRIVATE src/metrics/gathered.cpp src/metrics/metrics.cpp
  PUBLIC FILE_SET HEADERS BASE_DIRS include FILES include/reprise/metrics.hpp)
target_include_directories(reprise_metrics PRIVATE src)
target_link_libraries(
  reprise_metrics
  PUBLIC reprise::reprise prometheus-cpp::core)
set_target_properties(
  reprise_metrics
  PROPERTIES EXPORT_NAME metrics
             POSITION_INDEPENDENT_CODE ON
             # A program's own path to libraries is not asked for the buffer's.
             INSTALL_RPATH "$ORIGIN"
             VERSION ${PROJECT_VERSION}
             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
             VERIFY_INTERFACE_HEADER_SETS ${REPRISE_BUILD_TESTS})
reprise_own_target(reprise_metrics)
