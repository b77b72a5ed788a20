"""Programs of one kernel call: described once, written by edgecore or by executorch, run on the other's runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import IntEnum
from importlib import import_module
from typing import Any

import torch
from native import SCALAR_TYPES

import edgecore
from edgecore import format as fmt

ALIGNMENT = 64
PLAIN = ("executorch_prim::", "aten::sym_", "aten::_local_scalar_dense")
"""Operators on numbers: their result is written once."""
TORCH_TYPES = {number: dtype for dtype, number in SCALAR_TYPES.items()}


def overload(name: str) -> Any:
    """The OpOverload of "aten::add.out"; None for what torch does not have."""
    namespace, _, rest = name.partition("::")
    base, _, variant = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, variant or "default", None)


@dataclass
class OneCall:
    """`operator(*args)` with results like `outs`: tensors (max shapes where `dynamic`) or numbers.

    Without `outs`, the first argument is changed in place and is the result.
    """

    operator: str
    args: Sequence[Any]
    outs: Sequence[Any]
    dynamic: bool = False
    inputs: list[torch.Tensor] = field(default_factory=list)
    values: list[fmt.EValue] = field(default_factory=list)
    arena: int = 0

    def program(self) -> fmt.Program:
        """The description; `inputs` are then the tensors that the method takes."""
        types = self._types()
        at = [self._argument(arg, kind) for arg, kind in zip(self.args, types, strict=True)]
        name, _, variant = self.operator.partition(".")
        results = [self._out(out) for out in self.outs] or at[:1]
        call = [*at, *results] if self.outs else at
        if not self.operator.startswith(PLAIN):
            call = self._with_result(at, results)
        instruction = fmt.Instruction(fmt.KernelCall(0, call))
        plan = fmt.ExecutionPlan(
            name="forward",
            container_meta_type=fmt.ContainerMetadata("", ""),
            values=self.values,
            inputs=[index for index, _ in self._inputs],
            outputs=results,
            chains=[fmt.Chain([], [], [instruction], None)],
            operators=[fmt.Operator(name, variant)],
            non_const_buffer_sizes=[0, self.arena],
        )
        return fmt.Program(execution_plan=[plan])

    def __post_init__(self) -> None:
        self._inputs: list[tuple[int, torch.Tensor]] = []

    def _types(self) -> list[str]:
        schema = getattr(overload(self.operator), "_schema", None)
        if schema is None or not self.operator.startswith("aten::"):
            return [""] * len(self.args)
        return [str(a.real_type) for a in schema.arguments if not a.is_out][: len(self.args)]

    def _with_result(self, at: list[int], results: list[int]) -> list[int]:
        """The outs, and what the operator returns: it is written once more."""
        if not self.outs:
            return [*at, at[0]]
        if len(results) == 1:
            return [*at, results[0], results[0]]
        whole = self._add(fmt.TensorList(results))
        schema = getattr(overload(self.operator), "_schema", None)
        is_list = schema is not None and any("List" in str(a.real_type) for a in schema.arguments if a.is_out)
        return [*at, whole, whole] if is_list else [*at, *results, whole]

    def _add(self, value: fmt.KernelTypes) -> int:
        self.values.append(fmt.EValue(value))
        return len(self.values) - 1

    def _tensor(self, tensor: torch.Tensor, place: fmt.AllocationDetails | None, dynamic: bool = False) -> int:
        return self._add(
            fmt.Tensor(
                scalar_type=fmt.ScalarType(SCALAR_TYPES[tensor.dtype]),
                sizes=list(tensor.shape),
                dim_order=list(tensor.dim_order()),
                allocation_info=place,
                shape_dynamism=fmt.TensorShapeDynamism.DYNAMIC_BOUND if dynamic else fmt.TensorShapeDynamism.STATIC,
            )
        )

    def _input(self, tensor: torch.Tensor) -> int:
        tensor = tensor.contiguous()
        index = self._tensor(tensor, None)
        self._inputs.append((index, tensor))
        self.inputs.append(tensor)
        return index

    def _out(self, out: Any) -> int:
        if not isinstance(out, torch.Tensor):
            return self._argument(out, "")
        place = fmt.AllocationDetails.at(1, self.arena)
        self.arena += -(-max(out.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        return self._tensor(out.contiguous(), place, self.dynamic)

    def _argument(self, value: Any, kind: str) -> int:
        match value:
            case None | torch.memory_format() | torch.layout() | torch.device():
                return self._add(fmt.Null())
            case torch.Tensor():
                return self._input(value)
            case str():
                return self._add(fmt.String(value))
            case bool():
                return self._add(fmt.Bool(value))
            case torch.dtype():
                return self._add(fmt.Int(SCALAR_TYPES[value]))
            case float():
                return self._add(fmt.Double(value))
            case int():
                return self._add(fmt.Double(float(value)) if "float" in kind else fmt.Int(value))
        items = list(value)
        if "Optional[Tensor]]" in kind:
            return self._add(fmt.OptionalTensorList([-1 if item is None else self._input(item) for item in items]))
        if "Tensor" in kind:
            return self._add(fmt.TensorList([self._input(item) for item in items]))
        if "float" in kind:
            return self._add(fmt.DoubleList([float(item) for item in items]))
        if "bool" in kind:
            return self._add(fmt.BoolList(items))
        return self._add(fmt.IntList([self._add(fmt.Int(item)) for item in items]))


def written_by_edgecore(program: fmt.Program) -> bytes:
    return fmt.write_pte(fmt.PteFile(program))


def written_by_executorch(program: fmt.Program) -> bytes:
    from executorch.exir._serialize._program import PTEFile, serialize_pte_binary

    program.constant_buffer, program.constant_segment = [], fmt.SubsegmentOffsets(0, [])
    theirs = _mirror(program)
    theirs.constant_buffer = [_schema().Buffer(b"")]
    return bytes(serialize_pte_binary(PTEFile(program=theirs)))


def _schema() -> Any:
    from executorch.exir import schema

    return schema


def _mirror(value: Any) -> Any:
    """The same tables as executorch's dataclasses, which have the schema's names as ours do."""
    if isinstance(value, IntEnum):
        return getattr(_schema(), type(value).__name__)(int(value))
    if isinstance(value, (list, tuple)):
        return [_mirror(item) for item in value]
    if not is_dataclass(value):
        return value
    cls = getattr(_schema(), type(value).__name__)
    known = {f.name for f in fields(cls)}
    return cls(**{f.name: _mirror(getattr(value, f.name)) for f in fields(value) if f.name in known})


def run_on_edgecore(file: bytes, inputs: Sequence[torch.Tensor]) -> list[Any]:
    results = edgecore.load(file).forward(*[x.clone() for x in inputs])
    results = results if isinstance(results, list) else [results]
    return [torch.from_dlpack(r) if isinstance(r, edgecore.Tensor) else r for r in results]


def run_on_executorch(file: bytes, inputs: Sequence[torch.Tensor]) -> list[Any]:
    from executorch.runtime import Runtime

    import_module("executorch.kernels.quantized")  # registers its operators
    method = Runtime.get().load_program(file).load_method("forward")
    results = method.execute([x.clone() for x in inputs])
    return [r.clone() if isinstance(r, torch.Tensor) else r for r in results]
