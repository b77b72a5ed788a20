# Defines edgecore::ethosu, the backend as a static library, compiled in the build of the application that calls
# find_package(edgecore COMPONENTS ethosu). edgecore_link_backends(TARGET app BACKENDS edgecore::ethosu) links it.
# Without an operating system it is the delegate that uses Arm's driver, otherwise the delegate that uses the TOSA
# simulator; EDGECORE_ETHOSU_DEVICE overrides the choice. ETHOSU_DRIVER_PATH is the folder of the driver.
include(CMakeFindDependencyMacro)
if(NOT TARGET edgecore::headers)
  find_dependency(edgecore COMPONENTS headers)
endif()
edgecore_add_component(ethosu)
