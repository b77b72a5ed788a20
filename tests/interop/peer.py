"""Files that executorch, the peer, compiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch


def lower_with_executorch(exported: Any, backend: str, path: Path) -> None:
    """Write the file of an exported program; `backend` is xnnpack or portable."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    partitioner = [XnnpackPartitioner()] if backend == "xnnpack" else []
    path.write_bytes(to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch().buffer)


def quantized_by_executorch(model: torch.nn.Module, samples: list[tuple[torch.Tensor, ...]]) -> Any:
    """Export a model, quantized to int8 by executorch's quantizer for XNNPACK with a scale per channel."""
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    config = xnnpack_quantizer.get_symmetric_quantization_config(is_per_channel=True)
    observed = prepare_pt2e(
        torch.export.export(model, samples[0]).module(), xnnpack_quantizer.XNNPACKQuantizer().set_global(config)
    )
    for sample in samples:
        observed(*sample)
    return torch.export.export(convert_pt2e(observed), samples[0])


def parse_with_executorch(path: Path) -> Any:
    """Return the ETRecord in a file as executorch's tools read it; skip the test if they are not installed."""
    return pytest.importorskip("executorch.devtools.etrecord").parse_etrecord(str(path))
