# The delegate for a device, and the driver that it calls: Arm's own (ethos-u-core-driver) if the project has its target
# ethosu_core_driver, or if ETHOSU_DRIVER_PATH is its source folder; otherwise the stub for emulators.
set(ETHOSU_DRIVER_PATH "" CACHE PATH "Source folder of Arm's ethos-u-core-driver; without it a stub that runs nothing")
set(ETHOSU_TARGET_NPU_CONFIG "ethos-u55-128" CACHE STRING "The NPU, under the name of this option of Arm's driver")
set(EDGECORE_ETHOSU_DELEGATES 4 CACHE STRING "The most delegates that are loaded at a time")

edgecore_add_backend(edgecore_ethosu
  SOURCES src/blob.cpp device/delegate.cpp
  TESTS device/delegate_test.cpp stub/checks_test.cpp tests/session.cpp)
target_include_directories(edgecore_ethosu PUBLIC device)
target_compile_definitions(edgecore_ethosu PRIVATE EDGECORE_ETHOSU_DELEGATES=${EDGECORE_ETHOSU_DELEGATES})
target_compile_options(edgecore_ethosu PRIVATE -fno-exceptions -fno-rtti)

if(ETHOSU_DRIVER_PATH AND NOT TARGET ethosu_core_driver)
  enable_language(C)
  add_subdirectory("${ETHOSU_DRIVER_PATH}" "${CMAKE_CURRENT_BINARY_DIR}/driver")
endif()
if(TARGET ethosu_core_driver)
  target_link_libraries(edgecore_ethosu PUBLIC ethosu_core_driver)
else()
  message(STATUS "edgecore-ethosu: a stub takes the place of Arm's driver and runs nothing; set ETHOSU_DRIVER_PATH.")
  if(NOT ETHOSU_TARGET_NPU_CONFIG MATCHES "^ethos-u(55|65|85)-([0-9]+)$")
    message(FATAL_ERROR "ETHOSU_TARGET_NPU_CONFIG is '${ETHOSU_TARGET_NPU_CONFIG}', which is no name of an NPU, such as "
                        "ethos-u55-128.")
  endif()
  add_library(edgecore_ethosu_stub STATIC stub/checks.cpp stub/commands.cpp stub/stub.cpp)
  target_compile_definitions(edgecore_ethosu_stub PRIVATE EDGECORE_ETHOSU_STUB_FAMILY=${CMAKE_MATCH_1}
                                                          EDGECORE_ETHOSU_STUB_MACS=${CMAKE_MATCH_2})
  target_include_directories(edgecore_ethosu_stub PUBLIC stub PRIVATE src)
  target_compile_features(edgecore_ethosu_stub PUBLIC cxx_std_17)
  target_compile_options(edgecore_ethosu_stub PRIVATE -fno-exceptions -fno-rtti -Wall -Wextra -Wshadow)
  target_link_libraries(edgecore_ethosu_stub PRIVATE edgecore::headers)
  if(TARGET edgecore::core)  # defines edgecore_log
    target_link_libraries(edgecore_ethosu_stub PUBLIC edgecore::core)
  endif()
  target_link_libraries(edgecore_ethosu PUBLIC edgecore_ethosu_stub)
endif()
