"""Compile calls of the kernels, and run the files in processes that use one instruction set."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import edgecore
from edgecore_llm import operators  # noqa: F401  (registers the operators)

ops = torch.ops.edgecore_llm
INSTRUCTIONS = (
    *(pytest.param(name, marks=pytest.mark.full) for name in ("avx2", "avx512vnni", "dotprod")), "baseline", ""
)  # fmt: skip
"""An empty one stands for the best that this processor has."""
MISSING = "EDGECORE_LLM_INSTRUCTIONS names no instruction set of this processor"


class Call(torch.nn.Module):
    """Calls a function of its inputs and of a packed matrix, which must be a constant."""

    def __init__(self, function, packed=None):
        super().__init__()
        self.function, self.packed = function, packed

    def forward(self, *inputs):
        return self.function(*inputs) if self.packed is None else self.function(*inputs, self.packed)


class Caches(torch.nn.Module):
    """A cache of one layer: writes the tokens of a call, then attends."""

    def __init__(self, kv_heads, rows, key_size, value_size, heads, dtype=torch.float32, **options):
        super().__init__()
        self.heads, self.options = heads, options
        self.register_buffer("k_cache", torch.zeros(2, kv_heads, rows // 16, key_size, 16, dtype=dtype))
        self.register_buffer("v_cache", torch.zeros(2, kv_heads, rows, value_size, dtype=dtype))
        for name in ("k_scales", "v_scales"):
            self.register_buffer(name, torch.zeros(2, kv_heads, rows) if dtype == torch.int8 else None)

    def forward(self, qkv, table, positions, slots, q_norm, k_norm):
        sinks = self.options.get("sinks", 0)
        q = ops.rope_update_cache(
            self.k_cache, self.v_cache, qkv, table, positions, slots, self.heads, sinks, q_norm, k_norm, 1e-6,
            self.k_scales, self.v_scales,
        )  # fmt: skip
        scales = {"k_scales": self.k_scales, "v_scales": self.v_scales}
        return ops.attend(q, self.k_cache, self.v_cache, positions, slots, scale=0.3, **self.options, **scales)


def run(file: Path, inputs: list, instructions: str, tmp_path: Path) -> list[torch.Tensor]:
    """Run a file once for each list of inputs, in a process that uses the given instructions."""
    np.savez(
        tmp_path / "in.npz", **{f"{i}_{j:02}": x.numpy() for i, call in enumerate(inputs) for j, x in enumerate(call)}
    )
    code = (
        "import sys, edgecore, numpy as np\n"
        "given = np.load(sys.argv[2]); forward = edgecore.load(sys.argv[1]).forward; out = {}\n"
        "calls = sorted({int(name.split('_')[0]) for name in given})\n"
        "for call in calls:\n"
        "    inputs = [given[name] for name in sorted(given) if int(name.split('_')[0]) == call]\n"
        "    out[f'{call:04}'] = np.array(forward(*inputs))\n"
        "np.savez(sys.argv[3], **out)\n"
    )
    command = [sys.executable, "-c", code, str(file), str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
    environment = {"EDGECORE_LLM_INSTRUCTIONS": instructions} if instructions else {}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if instructions in ("avx2", "avx512vnni", "dotprod") and MISSING in done.stderr:
        pytest.skip(f"this processor has no {instructions}")
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "out.npz")
    return [torch.from_numpy(found[name]) for name in sorted(found)]


def compiled(model: torch.nn.Module, example: tuple, path: Path, dims=None) -> Path:
    edgecore.compile(model.eval(), example, dynamic_shapes=dims, runtime="edgecore").save(path)
    return path
