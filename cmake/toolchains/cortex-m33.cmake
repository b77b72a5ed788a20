# Cortex-M33 without a floating-point unit, which is optional there: functions compute in floating point.
set(CMAKE_SYSTEM_PROCESSOR cortex-m33)
set(edgecore_cpu "-mcpu=cortex-m33+nofp -mthumb -mfloat-abi=soft")
include("${CMAKE_CURRENT_LIST_DIR}/arm-none-eabi.cmake")
