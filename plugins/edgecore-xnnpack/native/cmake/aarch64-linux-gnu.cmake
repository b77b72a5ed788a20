# Toolchain for 64-bit Arm Linux: that of the package edgecore, whose programs qemu runs here.
set(EDGECORE_TOOLCHAIN aarch64-linux-gnu)
include("${CMAKE_CURRENT_LIST_DIR}/toolchain_of_core.cmake")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
