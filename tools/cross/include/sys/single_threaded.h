// Stands in for the header of glibc 2.32: libstdc++ takes the process for one with several threads.
#pragma GCC system_header
static const char __libc_single_threaded = 0;
