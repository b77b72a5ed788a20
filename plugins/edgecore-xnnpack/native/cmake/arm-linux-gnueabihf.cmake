# Toolchain for 32-bit Arm Linux: that of the package edgecore, whose programs qemu runs here.
set(EDGECORE_TOOLCHAIN arm-linux-gnueabihf)
include("${CMAKE_CURRENT_LIST_DIR}/toolchain_of_core.cmake")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-arm -L /usr/arm-linux-gnueabihf)
