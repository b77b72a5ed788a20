// Replaces a header of glibc 2.32, which glibc 2.28 lacks. With 0, libstdc++ assumes that the process has several
// threads.
#pragma GCC system_header
static const char __libc_single_threaded = 0;
