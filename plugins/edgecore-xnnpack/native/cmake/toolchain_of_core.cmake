# Reads the toolchain file EDGECORE_TOOLCHAIN of the package edgecore, in the source tree or beside this package.
foreach(folder ../../../../cmake ../../../edgecore/cmake)
  set(toolchain "${CMAKE_CURRENT_LIST_DIR}/${folder}/toolchains/${EDGECORE_TOOLCHAIN}.cmake")
  if(EXISTS "${toolchain}")
    include("${toolchain}")
    return()
  endif()
endforeach()
message(FATAL_ERROR "The toolchain file ${EDGECORE_TOOLCHAIN} of the package edgecore was not found.")
