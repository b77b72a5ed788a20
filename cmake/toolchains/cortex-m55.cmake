# Cortex-M55, as in Arm's Corstone-300, with its floating-point unit and MVE, which the loops over int8 values use.
set(CMAKE_SYSTEM_PROCESSOR cortex-m55)
# GCC 12 compiles comparisons of vectors of floats for MVE wrongly. The kernels have none on this processor, and the
# compiler shall make none of loops.
set(edgecore_cpu "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard -fno-tree-vectorize")
include("${CMAKE_CURRENT_LIST_DIR}/arm-none-eabi.cmake")
