"""Describe the content of a file as plain data, for `edgecore inspect --json` and `edgecore diff`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from edgecore.devtools.memory import delegate_needs
from edgecore.format import (
    ArgumentMeta,
    Bool,
    BpteFile,
    Double,
    EValue,
    ExecutionPlan,
    Int,
    KernelCall,
    Meta,
    PtdFile,
    PteFile,
    Tensor,
    TensorDataLocation,
    TensorShapeDynamism,
    get_meta,
)


def describe(pte: PteFile) -> dict[str, Any]:
    """Describe a program as plain data.

    Returns:
        A dict with the keys `profile` (target runtime), `producer`, `constant_bytes`, `external_data`, `named_data`,
        `segments`, `methods`. All sizes are in bytes. `profile`, `producer` and each method's `delegate_bytes` are None
        if the file has no metadata of edgecore.
    """
    meta = get_meta(pte)
    return {
        "profile": meta.profile if meta else None,
        "producer": f"{meta.producer} {meta.producer_version}" if meta else None,
        "constant_bytes": sum(memoryview(constant).nbytes for constant in pte.constants),
        "external_data": sorted({name for plan in pte.program.execution_plan for name in _external(plan)}),
        "named_data": [
            {"key": key, "bytes": memoryview(blob.data).nbytes} for key, blob in sorted(pte.named_data.items())
        ],
        "segments": [{"kind": part.kind, "offset": part.offset, "bytes": part.size} for part in pte.segments],
        "methods": [_method(plan, pte, meta) for plan in pte.program.execution_plan],
    }


def describe_data(ptd: PtdFile) -> dict[str, Any]:
    """Describe a `.ptd` file as plain data.

    Returns:
        A dict with the keys `data` (for each entry its key and size in bytes; for a tensor also dtype, shape and dim
        order) and `segments`.
    """
    rows = []
    for key, entry in sorted(ptd.entries.items()):
        row: dict[str, Any] = {"key": key, "bytes": memoryview(entry.data).nbytes}
        if entry.layout is not None:
            row["dtype"] = entry.layout.scalar_type.dtype_name
            row |= {"shape": list(entry.layout.sizes), "dim_order": list(entry.layout.dim_order)}
        rows.append(row)
    return {"data": rows, "segments": [{"offset": part.offset, "bytes": part.size} for part in ptd.segments]}


def describe_cases(bpte: BpteFile) -> dict[str, int]:
    """Map the name of each method to the number of its test cases."""
    return {suite.method_name: len(suite.test_cases) for suite in bpte.method_test_suites}


def _external(plan: ExecutionPlan) -> list[str]:
    """Return the names of the constants that the method expects in `.ptd` files."""
    infos = [value.val.extra_tensor_info for value in plan.values if isinstance(value.val, Tensor)]
    return [str(info.fully_qualified_name) for info in infos if info and info.location == TensorDataLocation.EXTERNAL]


def _method(plan: ExecutionPlan, pte: PteFile, meta: Meta | None) -> dict[str, Any]:
    method_meta = meta.method(plan.name) if meta else None
    delegate_metas = method_meta.delegates if method_meta else []
    delegates = []
    for index, delegate in enumerate(plan.delegates):
        row: dict[str, Any] = {
            "backend_id": delegate.id,
            "bytes": memoryview(pte.delegate_blob(delegate)).nbytes,
        }
        if index < len(delegate_metas):
            delegate_meta = delegate_metas[index]
            row["made_by"] = f"{delegate_meta.distribution} {delegate_meta.distribution_version}"
            row["compatibility"] = delegate_meta.compatibility
        delegates.append(row)
    needs = delegate_needs(pte, plan.name)
    operators: Counter[str] = Counter()
    for chain in plan.chains:
        for instruction in chain.instructions:
            if isinstance(call := instruction.instr_args, KernelCall):
                operators[plan.operators[call.op_index].key] += 1
    return {
        "name": plan.name,
        "inputs": [
            _value(plan.values[index], argument) | _fixed(plan.values[index])
            for index, argument in _arguments(plan.inputs, method_meta.inputs if method_meta else [])
        ],
        "outputs": [
            _value(plan.values[index], argument)
            for index, argument in _arguments(plan.outputs, method_meta.outputs if method_meta else [])
        ],
        "delegates": delegates,
        "operators": dict(operators.most_common()),
        "planned_bytes": sum(plan.non_const_buffer_sizes),
        "delegate_bytes": None if needs is None else sum(size for uses in needs.values() for size in uses.values()),
    }


def _arguments(indices: list[int], metas: list[ArgumentMeta]) -> Iterator[tuple[int, ArgumentMeta | None]]:
    return zip_longest(indices, metas[: len(indices)])


def _value(value: EValue, meta: ArgumentMeta | None) -> dict[str, Any]:
    """Describe an input or output. If the file lacks edgecore's metadata, names and minimum sizes are unknown."""
    tensor = value.val
    name = {"name": meta.name if meta else None}
    if not isinstance(tensor, Tensor):
        return name | {"type": type(tensor).__name__.lower()}
    dynamic = tensor.shape_dynamism != TensorShapeDynamism.STATIC
    known = meta.dims if meta and len(meta.dims) == len(tensor.sizes) else None
    dims = [
        {"name": known[index].name or None, "min": known[index].min, "max": known[index].max_size(size)}
        if known
        else {"name": None, "min": 0 if dynamic else size, "max": size}
        for index, size in enumerate(tensor.sizes)
    ]
    return name | {
        "type": "tensor",
        "dtype": tensor.scalar_type.dtype_name,
        "shape": list(tensor.sizes),
        "dynamic": dynamic,
        "dims": dims,
    }


def _fixed(value: EValue) -> dict[str, Any]:
    """Return the value of a number input. The export fixed it, so the program accepts no other value."""
    match value.val:
        case Int(number) | Double(number) | Bool(number):
            return {"value": number}
    return {}


def signature(value: dict[str, Any]) -> str:
    """Format the type of an input or output: `float32 [batch: 1..8, 3, 224, 224]`, where `batch` is a symbolic size.

    Args:
        value: An entry of `inputs` or `outputs` that `describe` made.
    """
    if value["type"] != "tensor":
        return f"{value['type']} {value['value']}" if "value" in value else str(value["type"])
    return f"{value['dtype']} [{', '.join(map(_dim, value['dims']))}]"


def _dim(dim: dict[str, Any]) -> str:
    if dim["min"] == dim["max"]:
        return str(dim["max"])
    return f"{dim['name'] + ': ' if dim['name'] else ''}{dim['min']}..{dim['max']}"
