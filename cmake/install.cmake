# cmake --install: the runtime as libraries of one compiler and one processor, for find_package(edgecore) and pkg-config
# with this prefix. Unlike the package in the wheel, which compiles the sources in the build of an application, this one
# cannot select the kernels of a model.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
file(STRINGS ${PROJECT_SOURCE_DIR}/pyproject.toml version REGEX "^version = ")
string(REGEX MATCH "[0-9.]+" version "${version}")
set(targets edgecore_core edgecore_kernels)
set(libraries "-ledgecore_kernels -ledgecore_core -lm")
if(TARGET edgecore_host)
  list(APPEND targets edgecore_host)
  set(libraries "-ledgecore_host ${libraries} -pthread -ldl")
endif()
foreach(target IN LISTS targets)
  string(REPLACE edgecore_ "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endforeach()
install(TARGETS ${targets} EXPORT edgecoreTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY runtime_cpp/include/edgecore DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET edgecore-run)
  install(TARGETS edgecore-run DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/edgecore)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/edgecoreConfigVersion.cmake
  VERSION ${version} COMPATIBILITY SameMinorVersion)
install(EXPORT edgecoreTargets NAMESPACE edgecore:: DESTINATION ${folder})
install(FILES cmake/edgecoreConfig.cmake cmake/edgecoreBackend.cmake ${PROJECT_BINARY_DIR}/edgecoreConfigVersion.cmake
        DESTINATION ${folder})

get_target_property(definitions edgecore_core INTERFACE_COMPILE_DEFINITIONS)
if(definitions)
  list(TRANSFORM definitions PREPEND " -D")
  string(JOIN "" definitions ${definitions})
else()
  set(definitions "")
endif()
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)  # the prefix, from the folder of the file
configure_file(cmake/edgecore.pc.in ${PROJECT_BINARY_DIR}/edgecore.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/edgecore.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
