# 64-bit Arm Linux with clang and Debian's cross C library: libc6-dev-arm64-cross and libstdc++-12-dev-arm64-cross, which
# g++-aarch64-linux-gnu brings along. -DCMAKE_CXX_COMPILER=... chooses another clang.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
foreach(language C CXX)
  set(CMAKE_${language}_COMPILER_TARGET aarch64-linux-gnu)
endforeach()
find_program(CMAKE_C_COMPILER NAMES clang-16 clang REQUIRED)
find_program(CMAKE_CXX_COMPILER NAMES clang++-16 clang++ REQUIRED)
