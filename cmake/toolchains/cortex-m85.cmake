# Cortex-M85 with its floating-point unit, by clang-16, which vectorizes for MVE. Debian's GCC 12 does not know the
# processor: it has the headers, and links, with the C library for a Cortex-M55.
set(CMAKE_SYSTEM_PROCESSOR cortex-m85)
set(edgecore_gcc arm-none-eabi-g++ -mcpu=cortex-m55 -mthumb -mfloat-abi=hard)
execute_process(COMMAND ${edgecore_gcc} -print-file-name=libc.a OUTPUT_VARIABLE edgecore_libc)
execute_process(COMMAND ${edgecore_gcc} -print-multi-directory OUTPUT_VARIABLE edgecore_multilib
                OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX REPLACE "/lib/(thumb/.*)?libc[.]a.*$" "/include" edgecore_include "${edgecore_libc}")
file(GLOB edgecore_include_cxx "${edgecore_include}/c++/*")
set(edgecore_cpu "-mcpu=cortex-m85 -mthumb -mfloat-abi=hard -fshort-enums -isystem ${edgecore_include}")
include("${CMAKE_CURRENT_LIST_DIR}/arm-none-eabi.cmake")
set(CMAKE_C_COMPILER clang-16)
set(CMAKE_CXX_COMPILER clang++-16)
set(CMAKE_C_COMPILER_TARGET thumbv8.1m.main-none-eabi)
set(CMAKE_CXX_COMPILER_TARGET thumbv8.1m.main-none-eabi)
string(PREPEND CMAKE_CXX_FLAGS_INIT "-isystem ${edgecore_include_cxx} -isystem "
                                    "${edgecore_include_cxx}/arm-none-eabi/${edgecore_multilib} ")
list(JOIN edgecore_gcc " " edgecore_gcc)
set(CMAKE_CXX_LINK_EXECUTABLE "${edgecore_gcc} <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES>")
