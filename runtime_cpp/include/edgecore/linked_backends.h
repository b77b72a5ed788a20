// The backends that are linked into an application, without shared libraries. CMake's edgecore_link_backends(TARGET app
// BACKENDS ...) writes the array; an application that is linked without CMake defines the function itself, in C or C++:
//
//   EDGECORE_BACKEND(xnnpack);  // with -DEDGECORE_STATIC: declares edgecore_backend_v0_xnnpack
//   const edgecore_backend_fn *edgecore_linked_backends(void) {
//     static const edgecore_backend_fn functions[] = {edgecore_backend_v0_xnnpack, 0};
//     return functions;
//   }
#ifndef EDGECORE_LINKED_BACKENDS_H_
#define EDGECORE_LINKED_BACKENDS_H_

#include "edgecore/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

// Returns the entry functions of the linked backends, with NULL at the end. The library edgecore_host has a definition
// without backends, for applications that define none. Module::find_backend looks here first.
const edgecore_backend_fn *edgecore_linked_backends(void);

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_LINKED_BACKENDS_H_
