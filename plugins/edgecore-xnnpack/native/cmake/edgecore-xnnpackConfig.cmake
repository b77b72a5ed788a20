# Defines edgecore::xnnpack: the backend as a static library, compiled in the build of the application that calls
# find_package(edgecore COMPONENTS xnnpack). edgecore_link_backends(TARGET app BACKENDS edgecore::xnnpack) links it.
# XNNPACK itself is built or taken from XNNPACK_DIR as FindXNNPACK.cmake says.
include(CMakeFindDependencyMacro)
if(NOT TARGET edgecore::headers)
  find_dependency(edgecore COMPONENTS headers)
endif()
if(NOT TARGET edgecore::xnnpack)
  get_filename_component(_edgecore_xnnpack "${CMAKE_CURRENT_LIST_DIR}/../native" ABSOLUTE)
  if(NOT EXISTS "${_edgecore_xnnpack}")  # in the source tree this file lies in native/cmake
    get_filename_component(_edgecore_xnnpack "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
  endif()
  set(EDGECORE_STATIC ON)
  add_subdirectory("${_edgecore_xnnpack}" "${CMAKE_BINARY_DIR}/edgecore_xnnpack" EXCLUDE_FROM_ALL)
  add_library(edgecore::xnnpack ALIAS edgecore_xnnpack)
  unset(_edgecore_xnnpack)
endif()
