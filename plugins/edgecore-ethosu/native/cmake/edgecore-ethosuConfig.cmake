# Defines edgecore::ethosu, the backend as a static library, compiled in the build of the application that calls
# find_package(edgecore COMPONENTS ethosu). edgecore_link_backends(TARGET app BACKENDS edgecore::ethosu) links it. Without
# an operating system it is the delegate over Arm's driver, otherwise that with the TOSA simulator; EDGECORE_ETHOSU_DEVICE
# chooses, and ETHOSU_DRIVER_PATH is the folder of the driver.
include(CMakeFindDependencyMacro)
if(NOT TARGET edgecore::headers)
  find_dependency(edgecore COMPONENTS headers)
endif()
edgecore_add_component(ethosu)
