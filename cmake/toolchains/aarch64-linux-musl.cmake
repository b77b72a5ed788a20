# 64-bit Arm Linux with the C library musl, for programs that are linked statically and run on any such system.
set(CMAKE_SYSTEM_PROCESSOR aarch64)
include("${CMAKE_CURRENT_LIST_DIR}/linux-musl.cmake")
