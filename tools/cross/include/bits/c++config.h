// Turns off the parts of libstdc++'s headers that call functions which glibc 2.28 lacks. libstdc++ was configured for
// the glibc of this machine, which is newer.
#pragma GCC system_header
#include_next <bits/c++config.h>
#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
#undef _GLIBCXX_USE_PTHREAD_RWLOCK_CLOCKLOCK
