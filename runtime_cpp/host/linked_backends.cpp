// Defines edgecore_linked_backends for applications that link no backend. The definition has a source file of its own,
// so that the linker uses it only if the application does not define the function itself.
#include "edgecore/linked_backends.h"

const edgecore_backend_fn *edgecore_linked_backends(void) {
  static const edgecore_backend_fn none[] = {nullptr};
  return none;
}
