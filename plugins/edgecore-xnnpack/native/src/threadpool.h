// The thread pool that XNNPACK uses: threadpool.cpp implements the pthreadpool_* functions with the parallel_for of
// edgecore's runtime, so that XNNPACK starts no threads of its own. With a null pool, the calling thread does all the
// work.
#ifndef EDGECORE_XNNPACK_THREADPOOL_H_
#define EDGECORE_XNNPACK_THREADPOOL_H_

#include <pthreadpool.h>

#include "edgecore/backend.hpp"

struct pthreadpool {
  edgecore::backend::Host host;  // gives access to the parallel_for of the runtime that hosts a delegate instance
};

#endif  // EDGECORE_XNNPACK_THREADPOOL_H_
