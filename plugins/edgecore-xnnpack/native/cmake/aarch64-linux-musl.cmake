# Toolchain for static programs on 64-bit Arm Linux: that of the package edgecore.
set(EDGECORE_TOOLCHAIN aarch64-linux-musl)
include("${CMAKE_CURRENT_LIST_DIR}/toolchain_of_core.cmake")
