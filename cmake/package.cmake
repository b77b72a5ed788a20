# What a plugin's build needs, installed into the wheel: the plain C headers and the CMake package. The version stands in
# pyproject.toml alone.
include(CMakePackageConfigHelpers)
file(STRINGS ${PROJECT_SOURCE_DIR}/pyproject.toml version REGEX "^version = ")
string(REGEX MATCH "[0-9.]+" version "${version}")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/edgecoreConfigVersion.cmake
  VERSION ${version} COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES runtime_cpp/include/edgecore/abi.h runtime_cpp/include/edgecore/backend.h
              runtime_cpp/include/edgecore/kernel.h
        DESTINATION edgecore/include/edgecore)
install(FILES cmake/edgecoreConfig.cmake ${PROJECT_BINARY_DIR}/edgecoreConfigVersion.cmake DESTINATION edgecore/cmake)
