# Toolchain for static programs on 64-bit Arm Linux: that of the package edgecore, in the source tree or beside this one.
foreach(folder ../../../../cmake ../../../edgecore/cmake)
  set(toolchain "${CMAKE_CURRENT_LIST_DIR}/${folder}/toolchains/aarch64-linux-musl.cmake")
  if(EXISTS "${toolchain}")
    include("${toolchain}")
    break()
  endif()
endforeach()
