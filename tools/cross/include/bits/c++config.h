// Turns off the parts of libstdc++'s headers that call functions of a glibc after 2.28: libstdc++ was configured with
// the glibc of this machine.
#pragma GCC system_header
#include_next <bits/c++config.h>
#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
#undef _GLIBCXX_USE_PTHREAD_RWLOCK_CLOCKLOCK
