// The array of an application without linked backends. A file of its own: the linker takes it only if the application
// does not define the function.
#include "edgecore/linked_backends.h"

const edgecore_backend_fn *edgecore_linked_backends(void) {
  static const edgecore_backend_fn none[] = {nullptr};
  return none;
}
