# edgecore_add_backend(TARGET SOURCES file...) adds the library of a backend.
#
# It is a shared library that exports edgecore_backend_v0 and nothing else. With -DEDGECORE_STATIC=ON it is a static
# library for applications and firmware, whose function edgecore_backend_v0_NAME comes from EDGECORE_BACKEND(NAME).
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
                                             VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
endfunction()
