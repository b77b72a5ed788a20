// The thread pool that XNNPACK sees: threadpool.cpp implements its pthreadpool_* functions over the host's
// parallel_for. A null pool means the calling thread alone.
#ifndef EDGECORE_XNNPACK_THREADPOOL_H_
#define EDGECORE_XNNPACK_THREADPOOL_H_

#include <pthreadpool.h>

#include "edgecore/backend.hpp"

struct pthreadpool {
  edgecore::backend::Host host;  // of an instance
};

#endif  // EDGECORE_XNNPACK_THREADPOOL_H_
