# Defines edgecore::xnnpack: the backend as a static library, compiled in the build of the application that calls
# find_package(edgecore COMPONENTS xnnpack). edgecore_link_backends(TARGET app BACKENDS edgecore::xnnpack) links it.
# FindXNNPACK.cmake builds XNNPACK, or takes it from XNNPACK_DIR.
include(CMakeFindDependencyMacro)
if(NOT TARGET edgecore::headers)
  find_dependency(edgecore COMPONENTS headers)
endif()
edgecore_add_component(xnnpack)
