"""Run TOSA graphs of one operator on Arm's reference model."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tosa_reference_model
from serializer.tosa_serializer import DType, TosaSerializer, TosaSerializerAttribute

TYPES = {np.int8: DType.INT8, np.int16: DType.INT16, np.int32: DType.INT32}


def run(
    operator: Any, set_attribute: Callable[[Any], Any], inputs: Sequence[Any], constants: Sequence[Any], kind: Any
) -> tuple[str, Any]:
    """Return the status of a graph of one operator, and its results if it is valid."""
    graph = TosaSerializer("", tosa_version_major=1, tosa_version_minor=0, tosa_version_draft=False)
    names = [graph.addPlaceholder(list(value.shape), TYPES[value.dtype.type], None).name for value in inputs]
    names += [graph.addConst(list(value.shape), TYPES[value.dtype.type], value).name for value in constants]
    attribute = TosaSerializerAttribute()
    set_attribute(attribute)
    result = graph.addOutput(list(inputs[0].shape), TYPES[kind])
    graph.addOperator(operator, names, [result.name], attribute)
    results, status = tosa_reference_model.run(graph.serialize(), inputs)
    if status != tosa_reference_model.GraphStatus.TOSA_VALID:
        return status.name, None
    return status.name, np.frombuffer(results[0].tobytes(), kind).tolist()
