# Cortex-M55, as in Arm's Corstone-300, with its floating-point unit.
set(CMAKE_SYSTEM_PROCESSOR cortex-m55)
# nomve: GCC 12 compiles comparisons of float vectors for MVE wrongly (max pooling returns NaN). With another compiler
# try -mcpu=cortex-m55, and check the results.
set(edgecore_cpu "-mcpu=cortex-m55+nomve -mthumb -mfloat-abi=hard")
include("${CMAKE_CURRENT_LIST_DIR}/arm-none-eabi.cmake")
