# edgecore_add_backend(TARGET
#                      SOURCES file...
#                      [FLATBUFFERS schema...]
#                      [TESTS file... [DEVICE_TESTS]])
#
# adds the library of a backend, and installs it into TARGET/lib, where the package's native_library() looks for it.
# This is a shared library that exports edgecore_backend_v0 and nothing else. With -DEDGECORE_STATIC=ON it is a static
# library for applications and firmware, whose function edgecore_backend_v0_NAME comes from EDGECORE_BACKEND(NAME). The
# target is edgecore_NAME, or its property EDGECORE_BACKEND_NAME is NAME. In the build of a wheel, the macro
# EDGECORE_NAME_VERSION is the version of the package. Without CMAKE_BUILD_TYPE, this is a release build.
#
# FLATBUFFERS: each schema x.fbs becomes a header x_generated.h, with scoped enums and the object API.
# TESTS: with -DEDGECORE_NAME_TESTS=ON these files are a program over GoogleTest and a test, TARGET_tests, which link the
# static library. Headers of src/ and tests/ are on their include path. With DEVICE_TESTS, tests whose names contain
# `Device` are the test TARGET_device_tests.
#
# edgecore_add_component(NAME), called by edgecore-NAMEConfig.cmake in a package that ships its sources in ../native,
# compiles them in the build of an application: as the static library edgecore::NAME.
#
# edgecore_link_backends(TARGET app BACKENDS target...) links static libraries of backends into an application, whose
# class Module finds them then (edgecore/linked_backends.h).
option(EDGECORE_STATIC "Build static libraries of backends, for linking into an application" OFF)

# A macro, because enable_testing() works in the scope that calls it.
macro(edgecore_add_backend target)
  _edgecore_add_backend(${target} ${ARGN})
  if(TARGET ${target}_tests)
    enable_testing()
  endif()
endmacro()

function(_edgecore_add_backend target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "DEVICE_TESTS" "" "SOURCES;FLATBUFFERS;TESTS")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "Wrong arguments: call edgecore_add_backend(${target} SOURCES file...)")
  endif()
  string(TOUPPER "${target}" prefix)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release PARENT_SCOPE)
  endif()
  set(tests OFF)
  if(arg_TESTS)
    option(${prefix}_TESTS "Build the unit tests (needs GoogleTest)" OFF)
    set(tests ${${prefix}_TESTS})
  endif()
  if(NOT MSVC)
    set(warnings -Wall -Wextra -Wshadow)
  endif()

  if(EDGECORE_STATIC OR tests)
    add_library(${target} STATIC ${arg_SOURCES})
    target_compile_definitions(${target} PRIVATE EDGECORE_STATIC)
  else()
    add_library(${target} SHARED ${arg_SOURCES})
    if(CMAKE_SYSTEM_NAME STREQUAL "Linux" OR CMAKE_SYSTEM_NAME STREQUAL "Android")
      # Templates of the C++ library are weak symbols, which are exported in spite of hidden visibility.
      set(exports "${CMAKE_CURRENT_BINARY_DIR}/${target}.map")
      file(CONFIGURE OUTPUT "${exports}" CONTENT "{ global: edgecore_backend_v0; local: *; };\n")
      target_link_options(${target} PRIVATE "LINKER:--version-script=${exports}" LINKER:--gc-sections)
      if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")  # the process provides the symbols of sanitizers
        target_link_options(${target} PRIVATE LINKER:-z,defs)
      endif()
    endif()
    # The file name that the function native_library() of a backend package expects, on every system.
    set_target_properties(${target} PROPERTIES PREFIX "lib" BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
  endif()
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src")
  target_link_libraries(${target} PRIVATE edgecore::headers)
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_compile_options(${target} PRIVATE ${warnings})
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
                                             VISIBILITY_INLINES_HIDDEN ON)
  if(NOT CMAKE_SYSTEM_NAME STREQUAL "Generic")  # firmware has no shared libraries
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  if(SKBUILD_PROJECT_VERSION)
    target_compile_definitions(${target} PRIVATE ${prefix}_VERSION="${SKBUILD_PROJECT_VERSION}")
  endif()

  set(generated "${CMAKE_CURRENT_BINARY_DIR}/generated")
  if(arg_FLATBUFFERS)  # by its package, which pairs the compiler with its headers: another flatc may be on the path
    find_package(FlatBuffers CONFIG REQUIRED)
    target_include_directories(${target} SYSTEM PRIVATE "${generated}")
  endif()
  foreach(schema IN LISTS arg_FLATBUFFERS)
    get_filename_component(schema "${schema}" ABSOLUTE)
    get_filename_component(name "${schema}" NAME_WE)
    add_custom_command(
      OUTPUT "${generated}/${name}_generated.h"
      COMMAND flatbuffers::flatc --cpp --scoped-enums --gen-object-api -o "${generated}" "${schema}"
      DEPENDS "${schema}" VERBATIM)
    target_sources(${target} PRIVATE "${generated}/${name}_generated.h")
  endforeach()

  install(TARGETS ${target} LIBRARY DESTINATION ${target}/lib RUNTIME DESTINATION ${target}/lib
          ARCHIVE DESTINATION ${target}/lib)

  if(NOT tests)
    return()
  endif()
  find_package(GTest REQUIRED)
  add_executable(${target}_tests ${arg_TESTS})
  target_include_directories(${target}_tests PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/tests"
                                                     $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  target_include_directories(${target}_tests SYSTEM PRIVATE "${generated}")
  target_compile_options(${target}_tests PRIVATE ${warnings})
  target_link_libraries(${target}_tests PRIVATE ${target} edgecore::headers GTest::gtest_main)
  if(arg_DEVICE_TESTS)
    add_test(NAME ${target}_tests COMMAND ${target}_tests --gtest_filter=-*Device*)
    add_test(NAME ${target}_device_tests COMMAND ${target}_tests --gtest_filter=*Device*)
  else()
    add_test(NAME ${target}_tests COMMAND ${target}_tests)
  endif()
endfunction()

function(edgecore_add_component name)
  if(TARGET edgecore::${name})
    return()
  endif()
  get_filename_component(source "${CMAKE_CURRENT_LIST_DIR}/../native" ABSOLUTE)
  if(NOT EXISTS "${source}")  # in the source tree, that file is in native/cmake
    get_filename_component(source "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
  endif()
  set(EDGECORE_STATIC ON)
  add_subdirectory("${source}" "${CMAKE_BINARY_DIR}/edgecore_${name}" EXCLUDE_FROM_ALL)
  add_library(edgecore::${name} ALIAS edgecore_${name})
endfunction()

function(edgecore_link_backends)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET" "BACKENDS")
  if(NOT arg_TARGET OR NOT arg_BACKENDS OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "Wrong arguments: call edgecore_link_backends(TARGET app BACKENDS target...)")
  endif()
  set(declarations "")
  set(functions "")
  foreach(backend IN LISTS arg_BACKENDS)
    get_target_property(aliased ${backend} ALIASED_TARGET)
    if(NOT aliased)
      set(aliased ${backend})
    endif()
    get_target_property(name ${backend} EDGECORE_BACKEND_NAME)
    if(NOT name)
      string(REGEX REPLACE "^edgecore_" "" name ${aliased})
    endif()
    string(APPEND declarations "EDGECORE_BACKEND(${name});\n")
    string(APPEND functions "edgecore_backend_v0_${name}, ")
  endforeach()
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${arg_TARGET}_backends.cpp")
  file(CONFIGURE OUTPUT "${source}" @ONLY CONTENT [[#define EDGECORE_STATIC
#include "edgecore/linked_backends.h"

extern "C" {
@declarations@}

const edgecore_backend_fn *edgecore_linked_backends(void) {
  static const edgecore_backend_fn functions[] = {@functions@0};
  return functions;
}
]])
  target_sources(${arg_TARGET} PRIVATE "${source}")
  target_link_libraries(${arg_TARGET} PRIVATE edgecore::headers ${arg_BACKENDS})
endfunction()
