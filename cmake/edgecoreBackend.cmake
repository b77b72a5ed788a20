# edgecore_add_backend(TARGET SOURCES file...) adds the library of a backend.
#
# It is a shared library that exports edgecore_backend_v0 and nothing else. With -DEDGECORE_STATIC=ON it is a static
# library for applications and firmware, whose function edgecore_backend_v0_NAME comes from EDGECORE_BACKEND(NAME). The
# target is edgecore_NAME, or its property EDGECORE_BACKEND_NAME is NAME.
#
# edgecore_link_backends(TARGET app BACKENDS target...) links static libraries of backends into an application, whose
# class Module finds them then (edgecore/linked_backends.h).
option(EDGECORE_STATIC "Build static libraries of backends, for linking into an application" OFF)

function(edgecore_add_backend target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "Wrong arguments: call edgecore_add_backend(${target} SOURCES file...)")
  endif()
  if(EDGECORE_STATIC)
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
  target_link_libraries(${target} PRIVATE edgecore::headers)
  target_compile_features(${target} PRIVATE cxx_std_17)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
                                             VISIBILITY_INLINES_HIDDEN ON)
  if(NOT CMAKE_SYSTEM_NAME STREQUAL "Generic")  # firmware has no shared libraries
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
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
