# Toolchain for a Cortex-M55 (Arm's Corstone-300) with Debian's gcc-arm-none-eabi.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
# nomve: GCC 12 compiles comparisons of float vectors for MVE wrongly (max pooling returns NaN). With another compiler try
# -mcpu=cortex-m55, and check the results.
set(cpu "-mcpu=cortex-m55+nomve -mthumb -mfloat-abi=hard")
set(CMAKE_C_FLAGS_INIT "${cpu}")
# Without exceptions and destructors of static objects, no start-up code of the C++ library is linked.
set(CMAKE_CXX_FLAGS_INIT "${cpu} -fno-exceptions -fno-rtti -fno-unwind-tables -fno-threadsafe-statics -fno-use-cxa-atexit")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-nostartfiles --specs=nano.specs --specs=nosys.specs -Wl,--gc-sections")
set(CMAKE_BUILD_TYPE MinSizeRel CACHE STRING "")
