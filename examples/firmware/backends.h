// The backends that are linked into the firmware (BACKENDS of CMakeLists.txt), for the model that runs.
#ifndef BACKENDS_H_
#define BACKENDS_H_

#include "edgecore/host.h"

// Opens all backends for a program. They stay open until close_backends, which is called after the program's methods
// were destroyed, also if this function has failed.
#ifdef BACKENDS
edgecore::Status open_backends(const edgecore::Program &program, edgecore::Span<const edgecore::LoadedBackend> &opened,
                               edgecore::Error &error);
void close_backends();
#else
inline edgecore::Status open_backends(const edgecore::Program &, edgecore::Span<const edgecore::LoadedBackend> &,
                                      edgecore::Error &) {
  return {};
}
inline void close_backends() {}
#endif

#endif  // BACKENDS_H_
