# Installs the files that the wheel ships for builds of other projects: headers, the CMake package, and the sources of
# core, kernels, host and tools with the generated readers and the flatbuffers headers that these include. The version
# comes from pyproject.toml.
include(CMakePackageConfigHelpers)
file(STRINGS ${PROJECT_SOURCE_DIR}/pyproject.toml version REGEX "^version = ")
string(REGEX MATCH "[0-9.]+" version "${version}")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/edgecoreConfigVersion.cmake
  VERSION ${version} COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES cmake/edgecoreConfig.cmake cmake/edgecoreBackend.cmake cmake/edgecoreVulkan.cmake
              cmake/third_party.py ${PROJECT_BINARY_DIR}/edgecoreConfigVersion.cmake DESTINATION edgecore/cmake)
install(DIRECTORY cmake/toolchains DESTINATION edgecore/cmake)

set(native edgecore/native)
install(DIRECTORY runtime_cpp/include runtime_cpp/core runtime_cpp/kernels runtime_cpp/host runtime_cpp/tools
                  runtime_cpp/vulkan
        DESTINATION ${native} PATTERN tests EXCLUDE PATTERN "*_test.cpp" EXCLUDE PATTERN __pycache__ EXCLUDE)
install(FILES runtime_cpp/CMakeLists.txt DESTINATION ${native})
install(FILES ${EDGECORE_READERS} DESTINATION ${native}/generated)
set(flatbuffers allocator array base buffer buffer_ref default_allocator detached_buffer flatbuffer_builder flatbuffers
                stl_emulation string struct table vector vector_downward verifier)
list(TRANSFORM flatbuffers REPLACE "(.+)" "${EDGECORE_FLATBUFFERS}/flatbuffers/\\1.h")
install(FILES ${flatbuffers} DESTINATION ${native}/third_party/flatbuffers)
