"""Run ONNX models on ONNX Runtime's QNN provider, with the HTP emulator of its wheel."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
import onnxruntime_qnn
from onnx import helper, numpy_helper

HTP = {"soc_model": "57", "backend_type": "htp"}
"""Options of the provider: the NPU of SM8650."""

_name = onnxruntime_qnn.get_ep_name()
ort.set_default_logger_severity(3)
ort.register_execution_provider_library(_name, onnxruntime_qnn.get_library_path())
_devices = [device for device in ort.get_ep_devices() if device.ep_name == _name]


def serialized(graph: Any) -> bytes:
    """Return the bytes of a model of ONNX operator set 21."""
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()


def session(model: bytes, options: Mapping[str, str] = HTP) -> Any:
    """Return a session in which QNN computes the whole model."""
    settings = ort.SessionOptions()
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    settings.add_provider_for_devices(_devices, options)
    return ort.InferenceSession(model, sess_options=settings)


def cpu_session(model: bytes) -> Any:
    """Return a session on the CPU provider."""
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"])


def run(
    nodes: Sequence[Any],
    inputs: Mapping[str, Any],
    constants: Mapping[str, Any] | None = None,
    kind: int = 1,
    soc: str = "57",
) -> tuple[Any, Any]:
    """Return the output "y" of both providers: CPU, QNN."""
    kinds = {key: helper.np_dtype_to_tensor_dtype(value.dtype) for key, value in inputs.items()}
    ins = [helper.make_tensor_value_info(key, kinds[key], value.shape) for key, value in inputs.items()]
    initializers = [numpy_helper.from_array(np.array(value), key) for key, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", ins, [helper.make_tensor_value_info("y", kind, None)], initializers)
    model = serialized(graph)
    cpu = cpu_session(model).run(None, inputs)[0]
    return cpu, session(model, {**HTP, "soc_model": soc}).run(None, inputs)[0]
