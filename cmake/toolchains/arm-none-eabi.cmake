# What the toolchains of Cortex-M processors have in common: Debian's gcc-arm-none-eabi, no operating system, no
# exceptions. They set CMAKE_SYSTEM_PROCESSOR and edgecore_cpu, the options of the compiler for the processor.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_FLAGS_INIT "${edgecore_cpu}")
# Without exceptions and destructors of static objects, no start-up code of the C++ library is linked.
set(CMAKE_CXX_FLAGS_INIT
    "${edgecore_cpu} -fno-exceptions -fno-rtti -fno-unwind-tables -fno-threadsafe-statics -fno-use-cxa-atexit")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-nostartfiles --specs=nano.specs --specs=nosys.specs -Wl,--gc-sections")
set(CMAKE_BUILD_TYPE MinSizeRel CACHE STRING "")
