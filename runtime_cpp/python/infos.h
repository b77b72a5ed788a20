// edgecore.TensorInfo and edgecore.DimInfo: the inputs and outputs of a method as the file declares them.
#ifndef EDGECORE_PYTHON_INFOS_H_
#define EDGECORE_PYTHON_INFOS_H_

#include <nanobind/nanobind.h>

#include "method.h"

namespace edgecore::python {

// Return the inputs, or outputs, of a method as a tuple of TensorInfo. Each keeps the method's program alive.
nanobind::tuple inputs(const PyMethod &method);
nanobind::tuple outputs(const PyMethod &method);

// Returns the method's declaration: "forward(x: float32 [batch: 4..8, 6]) -> logits: float32 [batch: 4..8, 10]".
nanobind::str description(const PyMethod &method);

void bind_infos(nanobind::module_ &module);

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_INFOS_H_
