"""Functions that ExecuTorch scripts use with the OpenVINO backend."""

from __future__ import annotations

from collections.abc import Sequence

from edgecore.plugin import CompileSpec
from edgecore.sdk import Partitioner
from edgecore_openvino.compiler import OpenvinoCompiler
from edgecore_openvino.options import OpenvinoOptions


def openvino_partitioner(compile_spec: Sequence[CompileSpec] = ()) -> Partitioner:
    """Create the partitioner that ExecuTorch calls `OpenvinoPartitioner`.

    Args:
        compile_spec: Only the spec `device` is allowed, such as `CompileSpec("device", b"CPU")`.

    Raises:
        ValueError: There is a spec other than `device`.
    """
    options = {}
    for spec in compile_spec:
        if spec.key != "device":
            raise ValueError(f"the compile spec {spec.key!r} is not known; there is: device")
        options["device"] = spec.value.decode()
    return OpenvinoCompiler().partitioner(OpenvinoOptions.model_validate(options), runtime="executorch-1.5")
