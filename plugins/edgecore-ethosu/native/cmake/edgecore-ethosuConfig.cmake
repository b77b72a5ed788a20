# Defines edgecore::ethosu, the backend as a static library, compiled in the build of the application that calls
# find_package(edgecore COMPONENTS ethosu). edgecore_link_backends(TARGET app BACKENDS edgecore::ethosu) links it. Without
# an operating system it is the delegate over Arm's driver, otherwise that with the TOSA simulator; EDGECORE_ETHOSU_DEVICE
# chooses, and ETHOSU_DRIVER_PATH is the folder of the driver.
include(CMakeFindDependencyMacro)
if(NOT TARGET edgecore::headers)
  find_dependency(edgecore COMPONENTS headers)
endif()
if(NOT TARGET edgecore::ethosu)
  get_filename_component(_edgecore_ethosu "${CMAKE_CURRENT_LIST_DIR}/../native" ABSOLUTE)
  if(NOT EXISTS "${_edgecore_ethosu}")  # in the source tree this file lies in native/cmake
    get_filename_component(_edgecore_ethosu "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
  endif()
  set(EDGECORE_STATIC ON)
  add_subdirectory("${_edgecore_ethosu}" "${CMAKE_BINARY_DIR}/edgecore_ethosu" EXCLUDE_FROM_ALL)
  add_library(edgecore::ethosu ALIAS edgecore_ethosu)
  unset(_edgecore_ethosu)
endif()
