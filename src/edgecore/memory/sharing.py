"""Share memory between tensors: views, slices, parts of a concatenation, results computed in place, and new content of
mutable buffers.

Inputs, outputs, constants and tensors that a branch or loop uses share no memory. The new content of a mutable buffer
is computed in the buffer only if nothing reads the old content afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from edgecore.ir.delegate import is_delegate_call
from edgecore.ir.dialect.op_sets import SAME_BYTES_NAMES, SPLIT_NAMES
from edgecore.ir.op_args import arguments_by_name
from edgecore.ir.torch_compat import OpOverload, schema_of
from edgecore.memory.specs import SPEC, TensorSpec, specs_of

IN_PLACE = frozenset(
    "abs acos add asin atan bitwise_not ceil clamp cos cosh div elu erf exp expm1 floor gelu hardsigmoid "
    "hardswish hardtanh leaky_relu log log10 log1p log2 logical_not maximum minimum mul neg pow reciprocal relu "
    "round rsqrt rsub sigmoid sign silu sin sinh sqrt square sub tan tanh trunc where".split()
)
"""ATen operators whose kernels, edgecore's and executorch's, read each element before they write the element at the
same position, so that the result may overwrite an operand.
"""

_UPDATES = {"index_put", "slice_scatter", "select_scatter"}
"""Operators that copy their first operand and then change the copy, so that the result may overwrite the operand."""


@dataclass
class Sharing:
    """Nodes that need no instruction, because their results already lie in the memory of other tensors.

    Attributes:
        elided: The nodes.
        content: Maps each result of an elided node to the tensors whose memory holds its elements: the base of a view,
            or the inputs of a concatenation.
    """

    elided: set[Node] = field(default_factory=set)
    content: dict[TensorSpec, tuple[TensorSpec, ...]] = field(default_factory=dict)


def share_memory(
    program: ExportedProgram, owned: Sequence[TensorSpec], order: Sequence[Node], alignment: int
) -> Sharing:
    """Set `base` and `base_offset` of the tensor specs that can share the memory of another tensor.

    The bytes of the spec then begin at `base_offset` in the tensor `base`. The tensor at the end of a chain of bases
    has its own memory; its lifetime is extended to cover the lifetimes of all tensors inside it. Memory is not shared
    if that would raise the largest sum of live bytes, or place a tensor at an offset that is not a multiple of
    `alignment`.

    Args:
        program: The program, with its specs assigned.
        owned: The tensor specs that may share memory; their lifetimes and memory ids are set.
        order: All nodes in the order of execution; lifetimes are positions in this list.
        alignment: Divisor of every offset, in bytes.
    """
    sharer = _Sharer(owned, order, alignment)
    nodes = [node for node in program.graph.nodes if node.op == "call_function" and isinstance(node.target, OpOverload)]
    for node in nodes:
        sharer.view(node)
    for node in nodes:
        if _name(node) == "cat":
            sharer.concatenation(node)
    for value, state in _new_state(program):
        sharer.update(value, state)
    for node in nodes:
        if _name(node) in IN_PLACE and node not in sharer.result.elided:
            sharer.in_place(node)
    return sharer.result


class _Sharer:
    """Makes tensors aliases of others, one node at a time.

    `live` tracks the sum of live bytes at each position in `order`, to reject sharing that would raise its maximum.
    """

    def __init__(self, owned: Sequence[TensorSpec], order: Sequence[Node], alignment: int) -> None:
        self.alignment = alignment
        self.owned = {spec for spec in owned if spec.nbytes}
        self.position = {node: index for index, node in enumerate(order)}
        self.result = Sharing()
        self.readers: Mapping[TensorSpec, list[Node]] = defaultdict(list)
        for node in order:
            for source in node.all_input_nodes:
                for spec in specs_of(source):
                    self.readers[spec].append(node)
        self.live: dict[int, np.ndarray] = {}  # memory id -> total bytes of live tensors at each node
        for spec in self.owned:
            assert spec.mem_id is not None
            self._count(spec, spec.lifetime, 1, len(order) + 1)

    def _count(self, spec: TensorSpec, life: tuple[int, int], sign: int, length: int = 0) -> None:
        """Add `sign` times the aligned size of the tensor `spec` to the live bytes at each position in `life`."""
        assert spec.mem_id is not None
        live = self.live.setdefault(spec.mem_id, np.zeros(length, np.int64))
        live[life[0] : life[1] + 1] += sign * -(-spec.nbytes // self.alignment) * self.alignment

    # Kinds of sharing, one method each: view, concatenation, update of a mutable buffer, computation in place ---------

    def view(self, node: Node) -> None:
        """Make the results of a view, slice or split aliases of the operand."""
        source = node.args[0] if node.args and isinstance(node.args[0], Node) else None
        spec = source.meta.get(SPEC) if source is not None else None
        if not isinstance(spec, TensorSpec) or spec not in self.owned or spec.dynamic:
            return
        parts, offsets = specs_of(node), _offsets(node, spec)
        if offsets is None or any(part.dynamic or not self._may_join(part, spec) for part in parts):
            return
        placed = list(zip(parts, offsets, strict=True))
        if any((spec.storage_offset + offset) % self.alignment for _, offset in placed):
            return
        if any(self._overlaps_in_delegate(part, spec) for part in parts):
            return
        if self._join(placed, spec):
            self.result.elided.add(node)
            self.result.content.update({part: (spec,) for part in parts})

    def concatenation(self, node: Node) -> None:
        """Let the operands of a concatenation be computed directly in their ranges of its result."""
        result = node.meta[SPEC]
        sources = list(node.args[0])  # type: ignore[arg-type]
        dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
        if not isinstance(result, TensorSpec) or result not in self.owned or result.dynamic or result.base is not None:
            return
        if not isinstance(dim, int) or not _is_outermost(result, dim % len(result.shape)):
            return
        joined, offset = [], 0
        for source in sources:
            part = source.meta.get(SPEC) if isinstance(source, Node) else None
            if not isinstance(part, TensorSpec) or part not in self.owned or part.dynamic or offset % self.alignment:
                return
            storage = part.storage
            if part.dtype != result.dtype or part.dim_order != result.dim_order:
                return
            if storage.nbytes != part.nbytes or part.storage_offset != 0 or not self._may_join(storage, result):
                return
            joined.append((storage, offset))
            offset += part.nbytes
        storages = [storage for storage, _ in joined]
        if len(set(storages)) < len(storages) or result.storage in storages or offset != result.nbytes:
            return
        contents = tuple(source.meta[SPEC] for source in sources)
        if any(self._overlaps_in_delegate(part, result) for part in contents):
            return
        if self._join(joined, result):
            self.result.elided.add(node)
            self.result.content[result] = contents

    def update(self, value: Node, state: TensorSpec) -> None:
        """Compute the new content of a mutable buffer in the buffer if nothing reads the old content afterwards."""
        spec = value.meta.get(SPEC)
        if not isinstance(spec, TensorSpec) or spec not in self.owned or spec.dynamic:
            return
        storage = spec.storage
        if (
            _layout(spec) != _layout(state)
            or storage.nbytes != spec.nbytes
            or spec.storage_offset
            or not self._may_join(storage, state)
        ):
            return
        for reader in self.readers[state]:
            # number of nodes from the first write of the buffer's new content to this read of its old content
            delay = self.position[reader] - storage.lifetime[0]
            if delay > 0 or (
                delay == 0 and (reader.meta.get(SPEC) is not storage or not _may_overwrite(reader, state))
            ):
                return
        self._join([(storage, 0)], state)

    def in_place(self, node: Node) -> None:
        """Let `node` write its result to the memory of an operand of equal dtype and shape that no later node reads."""
        spec = node.meta.get(SPEC)
        # Skip a result that lies in a mutable buffer (`owned` has no buffers). Otherwise its operand would be computed
        # in the buffer, too, at an earlier time, when later nodes may still have to read the buffer's old content.
        if not isinstance(spec, TensorSpec) or spec.storage not in self.owned or spec not in self.owned:
            return
        sources = [source for source in node.all_input_nodes if isinstance(source.meta.get(SPEC), TensorSpec)]
        for source in sources:
            operand = source.meta[SPEC]
            storage = operand.storage
            if operand not in self.owned or (operand.dtype, operand.dim_order) != (spec.dtype, spec.dim_order):
                continue
            if _symbolic_shape(source) != _symbolic_shape(node):
                continue
            if storage.nbytes != spec.nbytes or operand.storage_offset:
                continue
            if storage.lifetime[1] != self.position[node] or not self._may_join(storage, spec):
                continue
            if spec.storage is storage:
                continue
            others = (other.meta[SPEC] for other in sources if other is not source)
            if any(other.storage is storage and other is not operand for other in others):
                continue
            if self._join([(storage, 0)], spec):
                return

    # Checks and changes that several kinds of sharing need ------------------------------------------------------------

    def _may_join(self, part: TensorSpec, base: TensorSpec) -> bool:
        """Return True if `part` may become an alias inside `base`: it has no base yet, and both are in one arena."""
        return part in self.owned and part.base is None and part.mem_id == base.mem_id

    def _overlaps_in_delegate(self, part: TensorSpec, base: TensorSpec) -> bool:
        """Return True if a delegate that reads `part` also reads another tensor in the storage of `base`.

        Then `part` must keep its own memory, because the arguments of a delegate must not overlap.
        """
        for reader in self.readers[part]:
            if is_delegate_call(reader):
                others = (spec for source in reader.all_input_nodes for spec in specs_of(source) if spec is not part)
                if any(other.storage is base.storage for other in others):
                    return True
        return False

    def _join(self, parts: Iterable[tuple[TensorSpec, int]], base: TensorSpec) -> bool:
        """Make `parts`, which have no base yet, aliases of `base` at their offsets.

        Returns:
            False, with nothing changed, if that would raise the maximum sum of live bytes.
        """
        parts = list(parts)
        storage = base.storage
        assert storage.mem_id is not None
        live = self.live[storage.mem_id]
        peak, before = int(live.max()), live.copy()
        for part, _ in parts:
            self._count(part, part.lifetime, -1)
        lives = [storage.lifetime, *(part.lifetime for part, _ in parts)]
        life = min(start for start, _ in lives), max(end for _, end in lives)
        self._count(storage, storage.lifetime, -1)
        self._count(storage, life, 1)
        if int(live.max()) > peak:
            live[:] = before
            return False
        storage.lifetime = life
        for part, offset in parts:
            part.base, part.base_offset = base, offset
        return True


def _new_state(program: ExportedProgram) -> Iterator[tuple[Node, TensorSpec]]:
    """Yield (node that computes the new content, tensor spec) of each mutable buffer that the program writes."""
    signature = program.graph_signature
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    buffers = {
        target: placeholders[name] for name, target in signature.inputs_to_buffers.items() if name in placeholders
    }
    values = program.graph.output_node().args[0]
    for value, spec in zip(values, signature.output_specs, strict=True):
        if spec.kind == OutputKind.BUFFER_MUTATION and isinstance(value, Node) and spec.target in buffers:
            yield value, buffers[spec.target].meta[SPEC]


def _may_overwrite(node: Node, state: TensorSpec) -> bool:
    """Return True if the kernel of `node` may overwrite its operand, the mutable buffer `state`, with its result."""
    if _layout(node.meta[SPEC]) != _layout(state):
        return False
    if _name(node) in IN_PLACE:
        return True
    reads = [source for source in node.all_input_nodes if source.meta.get(SPEC) is state]
    return _name(node) in _UPDATES and reads == [node.args[0]] and list(node.args).count(reads[0]) == 1


def _layout(spec: TensorSpec) -> tuple[object, ...]:
    return spec.dtype, spec.shape, spec.dim_order


def _name(node: Node) -> str:
    target = node.target
    return schema_of(target).name.removeprefix("aten::") if isinstance(target, OpOverload) else ""


def _symbolic_shape(node: Node) -> tuple[str, ...]:
    return tuple(str(size) for size in node.meta["val"].shape)


def _dims_above_1(spec: TensorSpec) -> list[int]:
    """Return the dims with a size above 1, outermost first.

    If two tensors of one shape have equal lists, their elements have the same order in memory.
    """
    return [dim for dim in spec.dim_order if spec.shape[dim] > 1]


def _is_outermost(spec: TensorSpec, dim: int) -> bool:
    """Return True if all dims outside of `dim` have size 1, so that slices along `dim` are contiguous in memory."""
    return all(spec.shape[other] == 1 for other in spec.dim_order[: spec.dim_order.index(dim)])


def _offsets(node: Node, source: TensorSpec) -> list[int] | None:
    """Return where each result of `node` begins in the memory of its operand `source`, in bytes.

    Returns None unless the results are contiguous ranges of that memory.
    """
    results = specs_of(node)
    name = _name(node)
    if any(result.dtype != source.dtype for result in results) or not source.shape:
        return None
    if name in SAME_BYTES_NAMES:
        default = all(spec.dim_order == tuple(range(len(spec.shape))) for spec in (source, *results))
        return [0] if default and results[0].nbytes == source.nbytes else None
    if name in ("permute", "permute_copy"):
        dims = [int(dim) % len(source.shape) for dim in node.args[1]]  # type: ignore[union-attr,arg-type]
        return [0] if [dims[dim] for dim in _dims_above_1(results[0])] == _dims_above_1(source) else None
    if name in ("clone", "_to_copy"):
        return [0] if _dims_above_1(results[0]) == _dims_above_1(source) else None
    if name not in SPLIT_NAMES | {"slice", "slice_copy", "select", "select_copy"}:
        return None
    arguments = arguments_by_name(node)
    dim = arguments["dim"]
    if not isinstance(dim, int) or not _is_outermost(source, dim % len(source.shape)):
        return None
    dim %= len(source.shape)
    if not name.startswith(("select", "unbind")) and any(result.dim_order != source.dim_order for result in results):
        return None
    if name.startswith(("select", "unbind")):
        # Leave `dim` out of the dim order, and renumber the dims after it: (0, 2, 3, 1) becomes (1, 2, 0) for dim 0.
        order = [other - (other > dim) for other in source.dim_order if other != dim]
        if any(order != list(result.dim_order) for result in results):
            return None
    inner = prod(source.shape) // source.shape[dim] * source.dtype.itemsize
    if name in SPLIT_NAMES:
        ends = np.cumsum([0] + [result.nbytes for result in results])
        return [int(end) for end in ends[:-1]] if ends[-1] == source.nbytes else None
    start, step = arguments.get("start", arguments.get("index")), arguments.get("step", 1)
    start = 0 if start is None else start
    if not isinstance(start, int) or step != 1:
        return None
    start = start + source.shape[dim] if start < 0 else start
    offset = min(max(start, 0), source.shape[dim]) * inner
    return [offset] if offset + results[0].nbytes <= source.nbytes else None
