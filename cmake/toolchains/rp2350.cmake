# RP2350, as in the Raspberry Pi Pico 2: a Cortex-M33 with DSP instructions and a unit for float32.
set(CMAKE_SYSTEM_PROCESSOR rp2350)
set(edgecore_cpu "-mcpu=cortex-m33 -mthumb -mfloat-abi=hard")
include("${CMAKE_CURRENT_LIST_DIR}/arm-none-eabi.cmake")
