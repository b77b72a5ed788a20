# Linux on x86-64 with the C library musl, for programs that are linked statically and run on any such system.
set(CMAKE_SYSTEM_PROCESSOR x86_64)
include("${CMAKE_CURRENT_LIST_DIR}/linux-musl.cmake")
