// The array of an application without linked backends. This is a source file of its own so that the linker uses it only
// if the application does not define the function.
#include "edgecore/linked_backends.h"

const edgecore_backend_fn *edgecore_linked_backends(void) {
  static const edgecore_backend_fn none[] = {nullptr};
  return none;
}
