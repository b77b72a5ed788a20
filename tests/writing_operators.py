"""Custom operators that write arguments, for the tests of what compiling makes of them."""

from unittest.mock import patch

import torch
from edge_programs import Model

import edgecore
from edgecore import format as fmt
from edgecore.passes import EDGE_PASSES

_library = torch.library.Library("writing", "DEF")
_library.define("append(Tensor rows, Tensor(a!) cache, SymInt position) -> ()")
_library.define("append_(Tensor rows, Tensor(a!) cache, SymInt position) -> Tensor(a!)")
_library.define("append_sum(Tensor rows, Tensor(a!) cache, Tensor(b!)? other, SymInt position) -> Tensor")
_library.define("exchange(Tensor(a!) x, Tensor(b!) y) -> (Tensor(a!), Tensor(b!))")
_library.define("double.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
_library.define("append_all(Tensor rows, Tensor(a!)[] caches) -> ()")

ops = torch.ops.writing
ROWS = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
KEYS = {
    f"writing::{name}" for name in ("append", "append_", "append_sum.out", "exchange", "double.out", "append_all")
}  # the kernels of a package


def _append(rows, cache, position):
    cache[position : position + len(rows)] = rows


def _append_(rows, cache, position):
    _append(rows, cache, position)
    return cache


def _append_sum(rows, cache, other, position):
    _append(rows, cache, position)
    if other is not None:
        _append(-rows, other, position)
    return rows.sum(0)


def _exchange(x, y):
    copy = x.clone()
    x.copy_(y)
    y.copy_(copy)
    return x, y


def _double(x, *, out):
    return out.copy_(x * 2)


for _name, _function in (
    ("append", _append), ("append_", _append_), ("append_sum", _append_sum), ("exchange", _exchange), ("double.out", _double)
):  # fmt: skip
    _library.impl(_name, _function, "CPU")
torch.library.register_fake("writing::append", lambda rows, cache, position: None, lib=_library)
torch.library.register_fake("writing::append_", lambda rows, cache, position: cache, lib=_library)
torch.library.register_fake(
    "writing::append_sum", lambda rows, cache, other, position: torch.empty_like(rows[0]), lib=_library
)
torch.library.register_fake("writing::exchange", lambda x, y: (x, y), lib=_library)
torch.library.register_fake("writing::double.out", lambda x, out: out, lib=_library)
torch.library.register_fake("writing::append_all", lambda rows, caches: None, lib=_library)


def plan_of(function, *inputs, passes=EDGE_PASSES, **buffers):
    """Compile a function as if a package had kernels for these operators; return the execution plan."""
    with patch("edgecore.pipeline.lowering.check_kernels._installed", lambda namespace: KEYS):
        compiled = edgecore.compile(Model(function, **buffers).eval(), inputs, runtime="edgecore", passes=passes)
    return compiled.pte.program.execution_plan[0]


def kernel_calls(plan):
    """List the kernel calls: (operator, indices of its values)."""
    calls = []
    for instruction in plan.chains[0].instructions:
        assert isinstance(instruction.instr_args, fmt.KernelCall)
        operator = plan.operators[instruction.instr_args.op_index]
        name = f"{operator.name}.{operator.overload}" if operator.overload else operator.name
        calls.append((name, list(instruction.instr_args.args)))
    return calls


def buffers_of(plan):
    """Map the qualified name of each mutable buffer to the index of its value."""
    return {
        value.val.extra_tensor_info.fully_qualified_name: index
        for index, value in enumerate(plan.values)
        if isinstance(value.val, fmt.Tensor) and value.val.extra_tensor_info is not None
    }
