"""Verify a file: check the structure of the program, and the rules of its target runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from edgecore.errors import FormatError

from .bpte import BpteFile, BundledTensor
from .dtypes import SCALAR_TYPE_SIZES
from .flat import Buffer
from .meta import META_KEY, ArgumentMeta, Meta, MethodMeta, blob_digest, get_meta, segment_digest
from .program import (
    DelegateCall,
    ExecutionPlan,
    FreeCall,
    Int,
    IntList,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    OptionalTensorList,
    Tensor,
    TensorDataLocation,
    TensorList,
    TensorShapeDynamism,
)
from .ptd import PtdFile, TensorLayout
from .pte import PteFile
from .segments import SEGMENT_ALIGNMENT, Segment, without_shared

EXECUTORCH_1_5 = "executorch-1.5"
EDGECORE = "edgecore"
_SIZE_LIMIT = 1 << 31  # limit of a size, which files store as a 32-bit integer
_OPERATOR_KEY_BYTES = 100  # executorch's runtime builds kernel keys in a buffer of 100 bytes, including the final zero

Checker = Callable[[Buffer, dict[str, Any]], list[str]]
"""A function of a delegate's blob and a context that returns one sentence for each reason to reject the blob.

The context has the keys "named_data" ({key: bytes-like}), "method" (its name) and "arguments" (for each call of the
delegate, the list of its EValues).
"""


@dataclass(frozen=True, slots=True)
class Violation:
    """A finding: `where` names the method, value, instruction or segment; `what` is one sentence about it."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@cache
def profile_libraries(runtime: str) -> Mapping[str, frozenset[str]] | None:
    """Return the operators of a target runtime by the library that registers them; None if it accepts all operators.

    Args:
        runtime: `edgecore`, which accepts all operators; or `executorch-1.5`, whose libraries are named after their
            CMake targets: `quantized_kernels`, `custom_ops` (the operators of its LLM exporter), and `kernels` for the
            portable kernels, the optimized kernels and the core. An application must link the libraries that its files
            need.

    Raises:
        ValueError: The target runtime is unknown.

    Example:
        >>> "llama::update_cache.out" in profile_libraries("executorch-1.5")["custom_ops"]
        True
    """
    if runtime == EDGECORE:
        return None
    if runtime != EXECUTORCH_1_5:
        raise ValueError(f"unknown target runtime '{runtime}'; use '{EXECUTORCH_1_5}' or '{EDGECORE}'")
    files = sorted((Path(__file__).parent / "profiles" / runtime).glob("*.txt"))
    return MappingProxyType({file.stem: frozenset(file.read_text("utf-8").split()) for file in files})


@cache
def profile_operators(runtime: str) -> frozenset[str] | None:
    """Return the keys ("aten::add.out") of the operators that a target runtime accepts; None if it accepts all.

    Raises:
        ValueError: The target runtime is unknown.
    """
    libraries = profile_libraries(runtime)
    return None if libraries is None else frozenset().union(*libraries.values())


def verify(
    pte: PteFile,
    runtime: str = EXECUTORCH_1_5,
    checkers: Mapping[str, Checker] | None = None,
    data: Mapping[str, PtdFile] | None = None,
) -> list[Violation]:
    """Verify a program.

    Args:
        pte: The file.
        runtime: The target runtime: `executorch-1.5` or `edgecore`.
        checkers: Backend id -> the function that checks the delegates' blobs of this backend.
        data: The `.ptd` files of the program by name; None to skip the checks of external data.

    Returns:
        All findings; empty if the file is valid.

    Raises:
        ValueError: The target runtime is unknown.
    """
    operators = profile_operators(runtime)
    findings = list(_check_file(pte))
    named = dict(pte.named_data.items() if data is None else _all_named(pte, data, findings))
    for plan in pte.program.execution_plan:
        method = f"method '{plan.name}'"
        findings += (Violation(f"{method}{where}", what) for where, what in _check_plan(plan, pte, operators))
        findings += (
            Violation(f"{method}{where}", what) for where, what in _check_delegates(plan, pte, named, checkers or {})
        )
        findings += (Violation(f"{method}{where}", what) for where, what in _check_target(plan, runtime))
        if data is not None:
            findings += (Violation(f"{method}{where}", what) for where, what in _check_external(plan, data))
    findings += _check_meta(pte, runtime, data or {})
    return findings


def _check_target(plan: ExecutionPlan, runtime: str) -> Iterator[tuple[str, str]]:
    """Yield findings about parts that the format allows, but executorch's runtime rejects."""
    if runtime != EXECUTORCH_1_5:
        return
    for index, value in enumerate(plan.values):
        if isinstance(value.val, Tensor) and value.val.shape_dynamism == TensorShapeDynamism.DYNAMIC_UNBOUND:
            yield f", value {index}", f"{runtime} runs no tensors without a maximum shape (DYNAMIC_UNBOUND)"


def verify_ptd(ptd: PtdFile) -> list[Violation]:
    """Verify a file of external data. Return all findings; an empty list if the file is valid."""
    findings = list(_check_segments(ptd.segments))
    for key, entry in ptd.entries.items():
        where, size = f"'{key}'", memoryview(entry.data).nbytes
        if key == META_KEY:
            findings.append(Violation(where, "the metadata must be in the .pte, not in a .ptd"))
        if entry.layout is None:
            continue
        if any(dim < 0 for dim in entry.layout.sizes):
            findings.append(Violation(where, f"sizes {entry.layout.sizes} are negative"))
        elif entry.layout.nbytes != size:
            what = f"it has {size} bytes, but sizes {entry.layout.sizes} need {entry.layout.nbytes}"
            findings.append(Violation(where, what))
        if sorted(entry.layout.dim_order) != list(range(len(entry.layout.sizes))):
            what = f"dim order {entry.layout.dim_order} is no permutation of {len(entry.layout.sizes)} dims"
            findings.append(Violation(where, what))
    return findings


def verify_cases(bpte: BpteFile, pte: PteFile) -> list[Violation]:
    """Verify that the test cases of a bundled program match its program `pte`.

    Compares the names of the methods, and the number, dtypes and shapes of the inputs and expected outputs.
    """
    plans = {plan.name: plan for plan in pte.program.execution_plan}
    findings = []
    for suite in bpte.method_test_suites:
        plan = plans.get(suite.method_name)
        if plan is None:
            what = f"the program has no such method; it has: {', '.join(plans)}"
            findings.append(Violation(f"test cases of '{suite.method_name}'", what))
            continue
        for number, case in enumerate(suite.test_cases):
            where = f"test case {number} of '{plan.name}'"
            groups = [("input", case.inputs, plan.inputs)]
            if case.expected_outputs:
                groups.append(("expected output", case.expected_outputs, plan.outputs))
            for kind, values, indices in groups:
                if len(values) != len(indices):
                    findings.append(Violation(where, f"{len(values)} {kind}s, but the method has {len(indices)}"))
                for position, (value, index) in enumerate(zip(values, indices, strict=False)):
                    expected = plan.values[index].val if 0 <= index < len(plan.values) else None
                    what = _mismatch(value.val, expected)
                    if what:
                        findings.append(Violation(f"{where}, {kind} {position}", what))
    return findings


def _mismatch(value: Any, expected: Any) -> str:
    """Describe how a value of a test case differs from the method's value; empty if it matches."""
    if isinstance(value, BundledTensor) != isinstance(expected, Tensor):
        return f"it is a {type(value).__name__}, but the method has a {type(expected).__name__}"
    if not isinstance(value, BundledTensor):
        return "" if type(value) is type(expected) else f"it is {value}, but the method has {expected}"
    if value.scalar_type != expected.scalar_type:
        return f"it is {value.scalar_type.dtype_name}, but the method has {expected.scalar_type.dtype_name}"
    fixed = expected.shape_dynamism == TensorShapeDynamism.STATIC
    pairs = list(zip(value.sizes, expected.sizes, strict=False))
    if len(value.sizes) == len(expected.sizes) and all(a == b if fixed else a <= b for a, b in pairs):
        return ""
    return f"it has sizes {value.sizes}, but the method has {'' if fixed else 'at most '}{expected.sizes}"


def _check_file(pte: PteFile) -> Iterator[Violation]:
    names = [plan.name for plan in pte.program.execution_plan]
    if pte.program.version != 0:
        yield Violation("program", f"version {pte.program.version} is not 0")
    if not names:
        yield Violation("program", "it has no method")
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Violation("program", f"the method '{name}' occurs {names.count(name)} times")
    yield from _check_segments(pte.segments)


def _check_segments(segments: Iterable[Segment]) -> Iterator[Violation]:
    end = 0
    for segment in sorted(without_shared(segments), key=lambda s: s.offset):
        where = f"{segment.kind} segment at byte {segment.offset}"
        if segment.offset % SEGMENT_ALIGNMENT:
            yield Violation(where, f"it does not start at a multiple of {SEGMENT_ALIGNMENT}")
        if segment.size and segment.offset < end:
            yield Violation(where, f"it overlaps another segment that ends at byte {end}")
        end = max(end, segment.offset + segment.size)


def _check_plan(plan: ExecutionPlan, pte: PteFile, operators: frozenset[str] | None) -> Iterator[tuple[str, str]]:
    count = len(plan.values)
    yield from _out_of_range(", inputs", plan.inputs, count, "value")
    yield from _out_of_range(", outputs", plan.outputs, count, "value")
    if any(size < 0 for size in plan.non_const_buffer_sizes) or plan.non_const_buffer_sizes[:1] not in ([], [0]):
        yield ", arenas", f"the sizes {plan.non_const_buffer_sizes} must start with 0 and must not be negative"
    for index, value in enumerate(plan.values):
        where = f", value {index}"
        if value.val is None:
            yield where, "it has no type"
        elif isinstance(value.val, Tensor):
            yield from ((where, what) for what in _check_tensor(value.val, plan, pte))
        elif isinstance(value.val, (IntList, TensorList, OptionalTensorList)):
            yield from _check_list(where, value.val, plan)
    for index, operator in enumerate(plan.operators):
        where = f", operator {index}"
        if len(operator.key.encode()) >= _OPERATOR_KEY_BYTES:
            yield where, f"'{operator.key}' is longer than {_OPERATOR_KEY_BYTES - 1} bytes"
        elif operators is not None and operator.key not in operators:
            yield where, f"'{operator.key}' is not an operator of the target runtime"
    if not plan.chains:
        yield "", "it has no chain of instructions"
    for number, chain in enumerate(plan.chains):
        for index, instruction in enumerate(chain.instructions):
            where = f", chain {number}, instruction {index}"
            yield from _check_instruction(where, instruction.instr_args, plan, len(chain.instructions))


def _out_of_range(where: str, indices: Iterable[int], count: int, kind: str) -> Iterator[tuple[str, str]]:
    for index in indices:
        if not 0 <= index < count:
            yield where, f"{kind} {index} does not exist; there are {count}"


def _check_list(
    where: str, val: IntList | TensorList | OptionalTensorList, plan: ExecutionPlan
) -> Iterator[tuple[str, str]]:
    optional = isinstance(val, OptionalTensorList)
    indices = [index for index in val.items if not (optional and index == -1)]
    yield from _out_of_range(where, indices, len(plan.values), "value")
    expected = Int if isinstance(val, IntList) else Tensor
    for index in indices:
        if 0 <= index < len(plan.values) and not isinstance(plan.values[index].val, expected):
            kind = type(plan.values[index].val).__name__
            yield where, f"value {index} in its list is a {kind}, not a {expected.__name__}"


def _check_tensor(tensor: Tensor, plan: ExecutionPlan, pte: PteFile) -> Iterator[str]:
    if any(size < 0 for size in tensor.sizes):
        yield f"sizes {tensor.sizes} are negative"
        return
    if sorted(tensor.dim_order) != list(range(len(tensor.sizes))):
        yield f"dim order {tensor.dim_order} is no permutation of {len(tensor.sizes)} dims"
    if tensor.nbytes >= 1 << 63:
        yield f"the number of bytes of sizes {tensor.sizes} overflows 64 bits"
        return
    if tensor.storage_offset or tensor.layout:
        yield f"storage offset {tensor.storage_offset} and layout {tensor.layout} must be 0"
    allocation, index = tensor.allocation_info, tensor.data_buffer_idx
    external = tensor.extra_tensor_info and tensor.extra_tensor_info.location == TensorDataLocation.EXTERNAL
    if allocation is not None:
        yield from _check_allocation(allocation.memory_id, allocation.offset, tensor, plan.non_const_buffer_sizes)
    elif tensor.shape_dynamism != TensorShapeDynamism.STATIC and index:
        yield "a constant cannot have a dynamic shape"
    if external:
        if tensor.extra_tensor_info is None or not tensor.extra_tensor_info.fully_qualified_name:
            yield "its data is external, but it has no name"
    elif index:
        name, buffers = ("constants", pte.constants) if allocation is None else ("mutable", pte.mutable)
        if index >= len(buffers):
            yield f"{name}[{index}] does not exist; there are {len(buffers)}"
        elif memoryview(buffers[index]).nbytes < tensor.nbytes:
            size = memoryview(buffers[index]).nbytes
            yield f"{name}[{index}] has {size} bytes, but sizes {tensor.sizes} need {tensor.nbytes}"


def _check_allocation(memory_id: int, offset: int, tensor: Tensor, arenas: Sequence[int]) -> Iterator[str]:
    if not 1 <= memory_id < len(arenas):
        yield f"memory id {memory_id} does not exist; the last one is {len(arenas) - 1}"
        return
    if offset + tensor.nbytes > arenas[memory_id]:
        yield f"bytes {offset} to {offset + tensor.nbytes} lie outside arena {memory_id} of {arenas[memory_id]} bytes"
    element = SCALAR_TYPE_SIZES[tensor.scalar_type]
    if offset % element:
        yield f"offset {offset} is not a multiple of the element size {element}"


def _check_instruction(where: str, call: Any, plan: ExecutionPlan, instructions: int) -> Iterator[tuple[str, str]]:
    if call is None:
        yield where, "it has no type"
        return
    values: Sequence[int] = ()
    if isinstance(call, KernelCall):
        yield from _out_of_range(where, [call.op_index], len(plan.operators), "operator")
        values = call.args
    elif isinstance(call, DelegateCall):
        yield from _out_of_range(where, [call.delegate_index], len(plan.delegates), "delegate")
        values = call.args
    elif isinstance(call, MoveCall):
        values = [call.move_from, call.move_to]
    elif isinstance(call, JumpFalseCall):
        values = [call.cond_value_index]
        # A jump may also go to the end of the chain, whose index is the number of instructions.
        yield from _out_of_range(where, [call.destination_instruction], instructions + 1, "instruction")
    elif isinstance(call, FreeCall):
        values = [call.value_index]
    yield from _out_of_range(where, values, len(plan.values), "value")


def _all_named(pte: PteFile, data: Mapping[str, PtdFile], findings: list[Violation]) -> Iterator[tuple[str, Any]]:
    """Yield all named and external data by key; add a finding for a key in two files, which runtimes reject."""
    owners = dict.fromkeys(pte.named_data, "the .pte")
    yield from pte.named_data.items()
    for file, ptd in data.items():
        for key, entry in ptd.entries.items():
            if key in owners:
                findings.append(Violation(file, f"the key '{key}' is also in {owners[key]}"))
            owners[key] = file
            yield key, entry


def _check_external(plan: ExecutionPlan, data: Mapping[str, PtdFile]) -> Iterator[tuple[str, str]]:
    for index, value in enumerate(plan.values):
        tensor = value.val
        info = tensor.extra_tensor_info if isinstance(tensor, Tensor) else None
        if info is None or info.location != TensorDataLocation.EXTERNAL or not isinstance(tensor, Tensor):
            continue
        name = info.fully_qualified_name or ""
        file = next((file for file, ptd in data.items() if name in ptd.entries), None)
        if file is None:
            yield f", value {index}", f"'{name}' is in none of the .ptd files: {', '.join(data) or 'there are none'}"
            continue
        layout = data[file].entries[name].layout
        expected = TensorLayout(tensor.scalar_type, list(tensor.sizes), list(tensor.dim_order))
        if layout != expected:
            yield f", value {index}", f"'{name}' is {layout} in {file}, but the method has {expected}"


def _check_delegates(
    plan: ExecutionPlan, pte: PteFile, blobs: Mapping[str, Any], checkers: Mapping[str, Checker]
) -> Iterator[tuple[str, str]]:
    named = {key: blob.data for key, blob in blobs.items()}
    calls: dict[int, list[Any]] = {}
    for chain in plan.chains:
        for instruction in chain.instructions:
            call = instruction.instr_args
            if isinstance(call, DelegateCall):
                arguments = [plan.values[arg] for arg in call.args if 0 <= arg < len(plan.values)]
                calls.setdefault(call.delegate_index, []).append(arguments)
    for index, delegate in enumerate(plan.delegates):
        where = f", delegate {index} ({delegate.id})"
        try:
            blob = pte.delegate_blob(delegate)
            if delegate.id in checkers:
                context = {"named_data": named, "method": plan.name, "arguments": calls.get(index, [])}
                yield from ((where, what) for what in checkers[delegate.id](blob, context))
        except FormatError as error:
            yield where, str(error)


def _check_meta(pte: PteFile, runtime: str, data: Mapping[str, PtdFile]) -> Iterator[Violation]:
    try:
        meta = get_meta(pte)
    except FormatError as error:
        yield Violation("metadata", str(error))
        return
    if meta is None:
        return
    if runtime == EXECUTORCH_1_5 and meta.profile != runtime:
        yield Violation("metadata", f"the file was made for the target runtime '{meta.profile}', not for '{runtime}'")
    plans = {plan.name: plan for plan in pte.program.execution_plan}
    for method in meta.methods:
        where = f"metadata of method '{method.name}'"
        plan = plans.get(method.name)
        if plan is None:
            yield Violation(where, "the file has no such method")
            continue
        yield from (Violation(where, what) for what in _check_method_meta(method, plan, pte))
    yield from _check_digests(meta, pte, data)


def _check_digests(meta: Meta, pte: PteFile, data: Mapping[str, PtdFile]) -> Iterator[Violation]:
    """Compare the digests in a file with its constants, initial buffer contents, named data and external data."""
    for kind, expected, buffers in (
        ("constants", meta.constants_sha256, pte.constants),
        ("mutable", meta.state_sha256, pte.mutable),
    ):
        # `segment` is None if `pte` was not read from a file.
        segment = next((segment for segment in pte.segments if segment.kind == kind), None)
        where = f"{kind} segment" + (f" at byte {segment.offset}" if segment else "")
        digest = blob_digest(segment.data) if segment else segment_digest(buffers, pte.alignments.constant)
        yield from (Violation(where, what) for what in _compare_digest(digest, expected))
    keys = [entry.key.encode() for entry in meta.data]
    if any(a >= b for a, b in pairwise(keys)):
        yield Violation("metadata", "the keys of its digests are not in ascending order")
    digests: dict[int, bytes] = {}  # id of the bytes object -> digest; several keys may have the same bytes object
    for entry in meta.data:
        holders: list[tuple[str, Buffer]] = []
        if entry.key in pte.named_data:
            holders.append((f"named data '{entry.key}'", pte.named_data[entry.key].data))
        holders += [
            (f"'{entry.key}' of {file}", ptd.entries[entry.key].data)
            for file, ptd in data.items()
            if entry.key in ptd.entries
        ]
        for where, content in holders:
            if id(content) not in digests:
                digests[id(content)] = blob_digest(content)
            yield from (Violation(where, what) for what in _compare_digest(digests[id(content)], entry.sha256))


def _compare_digest(digest: bytes, expected: Buffer) -> Iterator[str]:
    if len(expected) not in (0, 32):
        yield f"its SHA-256 in the metadata has {len(expected)} bytes instead of 32"
    elif len(expected) and bytes(expected) != digest:
        yield f"its SHA-256 is {digest.hex()}, not {bytes(expected).hex()}: its bytes are not those that were compiled"


def _check_method_meta(method: MethodMeta, plan: ExecutionPlan, pte: PteFile) -> Iterator[str]:
    if len(method.delegates) != len(plan.delegates):
        yield f"it describes {len(method.delegates)} delegates, but the method has {len(plan.delegates)}"
    for index, (delegate_meta, delegate) in enumerate(zip(method.delegates, plan.delegates, strict=False)):
        try:
            digest = blob_digest(pte.delegate_blob(delegate))
        except FormatError:
            continue  # `_check_delegates` reports this error
        if bytes(delegate_meta.sha256) != digest:
            yield f"the SHA-256 of delegate {index} is {digest.hex()}, not {bytes(delegate_meta.sha256).hex()}"
    yield from _check_arguments(method, plan)


def _check_arguments(method: MethodMeta, plan: ExecutionPlan) -> Iterator[str]:
    symbols = 0
    for kind, arguments, indices in (
        ("input", method.inputs, plan.inputs),
        ("output", method.outputs, plan.outputs),
    ):
        if arguments and len(arguments) != len(indices):
            yield f"it describes {len(arguments)} {kind}s, but the method has {len(indices)}"
            continue
        for number, (argument, index) in enumerate(zip(arguments, indices, strict=False)):
            value = plan.values[index].val if 0 <= index < len(plan.values) else None
            sizes = value.sizes if isinstance(value, Tensor) else []
            symbols, problems = _check_dims(argument, sizes, symbols)
            yield from (f"{kind} {number} ('{argument.name}'): {what}" for what in problems)


def _check_dims(argument: ArgumentMeta, sizes: Sequence[int], symbols: int) -> tuple[int, list[str]]:
    """Check the dims of an argument.

    The symbols of a method are numbered in the order of their first use. `symbols` is the number of symbols that
    earlier arguments use, so a dim of this argument may have one of these symbols or the next new symbol. Returns the
    number of symbols that are used up to and including this argument, and the problems as sentences.
    """
    if argument.dims and len(argument.dims) != len(sizes):
        return symbols, [f"it describes {len(argument.dims)} dims of {len(sizes)}"]
    problems = []
    for number, (dim, size) in enumerate(zip(argument.dims, sizes, strict=False)):
        if not 0 <= dim.min <= size:
            problems.append(f"dim {number} has the minimum {dim.min} and the maximum {size}")
        if not 0 < dim.multiple < _SIZE_LIMIT or not -_SIZE_LIMIT < dim.offset < _SIZE_LIMIT:
            problems.append(f"dim {number} is {dim.multiple} * n + {dim.offset}, which is out of range")
        if not -1 <= dim.symbol <= symbols:
            problems.append(f"dim {number} has symbol {dim.symbol}, but only {symbols} symbols are known so far")
        symbols = max(symbols, dim.symbol + 1)
    return symbols, problems
