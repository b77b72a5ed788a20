# Cortex-M55 (Arm's Corstone-300) with Debian's gcc-arm-none-eabi.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
# Without MVE: GCC 12 compiles comparisons of float vectors for it wrongly (max pooling gives NaN). Try another compiler
# with plain cortex-m55, and check the numbers.
set(cpu "-mcpu=cortex-m55+nomve -mthumb -mfloat-abi=hard")
set(CMAKE_C_FLAGS_INIT "${cpu}")
# Without C++ exceptions and destructors of static objects nothing of the C++ library's start-up is linked.
set(CMAKE_CXX_FLAGS_INIT "${cpu} -fno-exceptions -fno-rtti -fno-unwind-tables -fno-threadsafe-statics -fno-use-cxa-atexit")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-nostartfiles --specs=nano.specs --specs=nosys.specs -Wl,--gc-sections")
set(CMAKE_BUILD_TYPE MinSizeRel CACHE STRING "")
