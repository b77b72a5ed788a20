// The thread pool that XNNPACK sees: its pthreadpool_* functions are implemented in threadpool.cpp over the host's
// parallel_for. A NULL pool means the calling thread alone.
#ifndef EDGECORE_XNNPACK_THREADPOOL_H_
#define EDGECORE_XNNPACK_THREADPOOL_H_

#include <pthreadpool.h>

#include "edgecore/abi.h"

struct pthreadpool {
  const edgecore_host *host;
  edgecore_scope *scope;  // an instance's
};

#endif  // EDGECORE_XNNPACK_THREADPOOL_H_
