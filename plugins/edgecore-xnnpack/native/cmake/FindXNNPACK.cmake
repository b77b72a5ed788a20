# Finds XNNPACK as static libraries; upstream has no CMake config and no version.
#
# XNNPACK_DIR (variable or environment): the prefix of an installed XNNPACK with include/ and lib/. It is used if
# check_xnnpack.cpp compiles and links with it. Otherwise third_party/get_xnnpack.py fetches and builds XNNPACK.
#
# Defines XNNPACK::XNNPACK.
# XNNPACK::XNNPACK does not define the pthreadpool_* functions, because the plugin implements them.
# XNNPACK::pthreadpool is the original library, for benchmarks. In a cross build, third_party/get_xnnpack.py builds with
# the same toolchain file.

# Sets <out> to a sentence with the reason if <prefix> cannot be used. Otherwise sets <out> to "", and sets the
# XNNPACK_* variables above.
function(_xnnpack_look prefix out)
  set(here NO_DEFAULT_PATH NO_CACHE PATHS "${prefix}")
  set(lib_folders PATH_SUFFIXES lib lib64 "lib/${CMAKE_LIBRARY_ARCHITECTURE}")
  find_path(include xnnpack.h ${here} PATH_SUFFIXES include)
  find_library(xnnpack libXNNPACK.a ${here} ${lib_folders})
  find_library(microkernels NAMES libmicrokernels-prod.a libxnnpack-microkernels-prod.a ${here} ${lib_folders})
  find_library(pthreadpool libpthreadpool.a ${here} ${lib_folders})
  find_library(cpuinfo libcpuinfo.a ${here} ${lib_folders})
  foreach(part include xnnpack microkernels pthreadpool cpuinfo)
    if(NOT ${part})
      set(${out} "${prefix} holds no static XNNPACK (its ${part} was not found)" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  find_package(Threads REQUIRED)
  unset(XNNPACK_USABLE CACHE)  # try again, because the prefix or its contents may have changed
  try_compile(
    XNNPACK_USABLE "${CMAKE_BINARY_DIR}/CMakeFiles/check_xnnpack"
    SOURCES "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/check_xnnpack.cpp"
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${include}"
    LINK_LIBRARIES "${xnnpack}" "${microkernels}" "${pthreadpool}" "${cpuinfo}" Threads::Threads m
    OUTPUT_VARIABLE output)
  if(NOT XNNPACK_USABLE)
    file(APPEND "${CMAKE_BINARY_DIR}/CMakeFiles/CMakeError.log" "${output}")
    set(${out} "the XNNPACK in ${prefix} is too old or cannot be linked (see CMakeFiles/CMakeError.log)" PARENT_SCOPE)
    return()
  endif()
  set(${out} "" PARENT_SCOPE)
  set(XNNPACK_INCLUDE_DIR "${include}" PARENT_SCOPE)
  set(XNNPACK_LIBRARIES "${xnnpack};${microkernels}" PARENT_SCOPE)
  set(XNNPACK_PTHREADPOOL_LIBRARY "${pthreadpool}" PARENT_SCOPE)
  set(XNNPACK_CPUINFO_LIBRARY "${cpuinfo}" PARENT_SCOPE)
endfunction()

if(NOT XNNPACK_DIR)
  set(XNNPACK_DIR "$ENV{XNNPACK_DIR}")
endif()
set(_xnnpack_problem "XNNPACK_DIR is not set")
if(XNNPACK_DIR)
  _xnnpack_look("${XNNPACK_DIR}" _xnnpack_problem)
  if(_xnnpack_problem)
    message(WARNING "XNNPACK_DIR is not used: ${_xnnpack_problem}. Building XNNPACK instead.")
  else()
    message(STATUS "XNNPACK: using ${XNNPACK_DIR}")
  endif()
endif()

if(_xnnpack_problem)
  if(NOT Python_EXECUTABLE)
    find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
  endif()
  set(_xnnpack_target "")
  if(CMAKE_CROSSCOMPILING)
    if(NOT CMAKE_TOOLCHAIN_FILE)
      message(FATAL_ERROR "A cross build of XNNPACK needs a toolchain file: set CMAKE_TOOLCHAIN_FILE.")
    endif()
    set(_xnnpack_target --toolchain "${CMAKE_TOOLCHAIN_FILE}")
    # The variables of the toolchain file, such as -DEDGECORE_ZIG or -DANDROID_ABI.
    foreach(name IN LISTS CMAKE_TRY_COMPILE_PLATFORM_VARIABLES)
      if(NOT "${${name}}" STREQUAL "")
        string(REPLACE ";" "\\;" _xnnpack_value "${${name}}")  # keeps a list one argument
        list(APPEND _xnnpack_target --define "${name}=${_xnnpack_value}")
      endif()
    endforeach()
  endif()
  set(_xnnpack_native "${CMAKE_CURRENT_LIST_DIR}/..")
  file(GLOB _xnnpack_sources "${_xnnpack_native}/third_party/*.p*" "${_xnnpack_native}/third_party/kernels.txt"
       "${_xnnpack_native}/third_party/patches/*" "${_xnnpack_native}/third_party/kernels/*"
       "${_xnnpack_native}/cpuinfo/*.*" "${_xnnpack_native}/cpuinfo/include/*")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_xnnpack_sources})
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "EDGECORE_CMAKE_DIR=${edgecore_DIR}"
            "${Python_EXECUTABLE}" "${_xnnpack_native}/third_party/get_xnnpack.py" ${_xnnpack_target}
    OUTPUT_VARIABLE _xnnpack_prefix OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE _xnnpack_status)
  if(NOT _xnnpack_status EQUAL 0)
    message(FATAL_ERROR "XNNPACK could not be built; the message above says why.")
  endif()
  _xnnpack_look("${_xnnpack_prefix}" _xnnpack_problem)
  if(_xnnpack_problem)
    message(FATAL_ERROR "The XNNPACK that was built cannot be used: ${_xnnpack_problem}; delete that folder.")
  endif()
  message(STATUS "XNNPACK: ${_xnnpack_prefix}")
endif()

if(NOT TARGET XNNPACK::XNNPACK)
  find_package(Threads REQUIRED)
  add_library(XNNPACK::pthreadpool INTERFACE IMPORTED)
  target_link_libraries(XNNPACK::pthreadpool INTERFACE "${XNNPACK_PTHREADPOOL_LIBRARY}" Threads::Threads)
  add_library(XNNPACK::XNNPACK INTERFACE IMPORTED)
  target_include_directories(XNNPACK::XNNPACK INTERFACE "${XNNPACK_INCLUDE_DIR}")
  target_link_libraries(XNNPACK::XNNPACK INTERFACE ${XNNPACK_LIBRARIES} "${XNNPACK_CPUINFO_LIBRARY}" Threads::Threads m)
endif()
set(XNNPACK_FOUND TRUE)
