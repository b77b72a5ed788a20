"""Tensors that need no memory of their own: views, slices, parts of a concatenation, results computed in place, new state.

Only tensors that the plan owns take part: no inputs, outputs or constants, and nothing that a branch or loop touches. A
buffer is only ever written, after its last read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from edgecore.ir.delegate import is_delegate_call
from edgecore.ir.op_args import arguments_by_name
from edgecore.ir.op_sets import SAME_BYTES_NAMES, SPLIT_NAMES
from edgecore.memory.specs import SPEC, TensorSpec, specs_of

IN_PLACE = frozenset(
    "abs acos add asin atan bitwise_not ceil clamp cos cosh div elu erf exp expm1 floor gelu hardsigmoid hardswish hardtanh"
    " leaky_relu log log10 log1p log2 logical_not maximum minimum mul neg pow reciprocal relu round rsqrt rsub sigmoid sign"
    " silu sin sinh sqrt square sub tan tanh trunc where".split()
)
"""Operators of aten whose kernels, ours and the stock ones, read an element before they write the one at its place."""

_UPDATES = {"index_put", "slice_scatter", "select_scatter"}
"""Operators that begin with a copy of their first operand, and so may have it as their result."""


@dataclass
class Sharing:
    """`gone`: nodes that need no instruction. `content`: for each of their results the tensors that hold its bytes."""

    gone: set[Node] = field(default_factory=set)
    content: dict[TensorSpec, tuple[TensorSpec, ...]] = field(default_factory=dict)


def share_memory(
    program: ExportedProgram, owned: Sequence[TensorSpec], order: Sequence[Node], alignment: int
) -> Sharing:
    """Set `base` and `base_offset` of the specs that live in another one's memory, whose lifetime becomes that of all.

    `owned` have their lifetimes, counted in `order`, and memory ids. No step is done that raises the maximum sum of live
    bytes or that starts a tensor off a multiple of `alignment` bytes.
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
        if _name(node) in IN_PLACE and node not in sharer.result.gone:
            sharer.in_place(node)
    return sharer.result


class _Sharer:
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
        self.live: dict[int, np.ndarray] = {}  # by memory id, bytes at each position
        for spec in self.owned:
            assert spec.mem_id is not None
            self._count(spec, spec.lifetime, 1, len(order) + 1)

    def _count(self, spec: TensorSpec, life: tuple[int, int], sign: int, length: int = 0) -> None:
        assert spec.mem_id is not None
        line = self.live.setdefault(spec.mem_id, np.zeros(length, np.int64))
        line[life[0] : life[1] + 1] += sign * -(-spec.nbytes // self.alignment) * self.alignment

    # Steps ------------------------------------------------------------------------------------------------------------

    def view(self, node: Node) -> None:
        """A view, slice or split becomes a part of its source."""
        source = node.args[0] if node.args and isinstance(node.args[0], Node) else None
        spec = source.meta.get(SPEC) if source is not None else None
        if not isinstance(spec, TensorSpec) or spec not in self.owned or spec.dynamic:
            return
        parts, offsets = specs_of(node), _offsets(node, spec)
        if offsets is None or any(part.dynamic or not self._may_join(part, spec) for part in parts):
            return
        used = list(zip(parts, offsets, strict=True))
        if any((spec.root_offset + offset) % self.alignment for _, offset in used):
            return
        if any(self._meets_in_delegate(part, spec) for part in parts):
            return
        if self._join(used, spec):
            self.result.gone.add(node)
            self.result.content.update({part: (spec,) for part in parts})

    def concatenation(self, node: Node) -> None:
        """The parts are computed where the result wants them."""
        whole = node.meta[SPEC]
        sources = list(node.args[0])  # type: ignore[arg-type]
        dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
        if not isinstance(whole, TensorSpec) or whole not in self.owned or whole.dynamic or whole.base is not None:
            return
        if not isinstance(dim, int) or not _outermost(whole, dim % len(whole.shape)):
            return
        joined, offset = [], 0
        for source in sources:
            part = source.meta.get(SPEC) if isinstance(source, Node) else None
            if not isinstance(part, TensorSpec) or part not in self.owned or part.dynamic or offset % self.alignment:
                return
            root = part.root
            if part.dtype != whole.dtype or part.dim_order != whole.dim_order:
                return
            if root.nbytes != part.nbytes or part.root_offset != 0 or not self._may_join(root, whole):
                return
            joined.append((root, offset))
            offset += part.nbytes
        roots = [root for root, _ in joined]
        if len(set(roots)) < len(roots) or whole.root in roots or offset != whole.nbytes:
            return
        contents = tuple(source.meta[SPEC] for source in sources)
        if self._join(joined, whole):
            self.result.gone.add(node)
            self.result.content[whole] = contents

    def update(self, value: Node, state: TensorSpec) -> None:
        """What a buffer is set to is computed in the buffer, if nothing reads the old content any more."""
        spec = value.meta.get(SPEC)
        if not isinstance(spec, TensorSpec) or spec not in self.owned or spec.dynamic:
            return
        root = spec.root
        if (
            _form(spec) != _form(state)
            or root.nbytes != spec.nbytes
            or spec.root_offset
            or not self._may_join(root, state)
        ):
            return
        for reader in self.readers[state]:
            late = self.position[reader] - root.lifetime[0]
            if late > 0 or (late == 0 and (reader.meta.get(SPEC) is not root or not _may_overwrite(reader, state))):
                return
        self._join([(root, 0)], state)

    def in_place(self, node: Node) -> None:
        """The result goes over the first operand of its form that dies here."""
        spec = node.meta.get(SPEC)
        if not isinstance(spec, TensorSpec) or spec.root not in self.owned or spec not in self.owned:
            return  # what is computed in a buffer may not start earlier
        operands = [source for source in node.all_input_nodes if isinstance(source.meta.get(SPEC), TensorSpec)]
        for source in operands:
            given = source.meta[SPEC]
            root = given.root
            if given not in self.owned or (given.dtype, given.dim_order) != (spec.dtype, spec.dim_order):
                continue
            if _symbolic_shape(source) != _symbolic_shape(node) or root.nbytes != spec.nbytes or given.root_offset:
                continue
            if root.lifetime[1] != self.position[node] or not self._may_join(root, spec) or spec.root is root:
                continue
            others = (other.meta[SPEC] for other in operands if other is not source)
            if any(other.root is root and other is not given for other in others):
                continue
            if self._join([(root, 0)], spec):
                return

    # Pieces -----------------------------------------------------------------------------------------------------------

    def _may_join(self, part: TensorSpec, base: TensorSpec) -> bool:
        return part in self.owned and part.base is None and part.mem_id == base.mem_id

    def _meets_in_delegate(self, part: TensorSpec, base: TensorSpec) -> bool:
        """Whether some delegate would get two arguments that overlap."""
        for reader in self.readers[part]:
            if is_delegate_call(reader):
                others = (spec for source in reader.all_input_nodes for spec in specs_of(source) if spec is not part)
                if any(other.root is base.root for other in others):
                    return True
        return False

    def _join(self, parts: Iterable[tuple[TensorSpec, int]], base: TensorSpec) -> bool:
        """Put `parts`, which are roots, into `base` at their offsets, unless more bytes would live at once."""
        parts = list(parts)
        root = base.root
        assert root.mem_id is not None
        line = self.live[root.mem_id]
        peak, kept = int(line.max()), line.copy()
        for part, _ in parts:
            self._count(part, part.lifetime, -1)
        lives = [root.lifetime, *(part.lifetime for part, _ in parts)]
        life = min(start for start, _ in lives), max(end for _, end in lives)
        self._count(root, root.lifetime, -1)
        self._count(root, life, 1)
        if int(line.max()) > peak:
            line[:] = kept
            return False
        root.lifetime = life
        for part, offset in parts:
            part.base, part.base_offset = base, offset
        return True


def _new_state(program: ExportedProgram) -> Iterator[tuple[Node, TensorSpec]]:
    """(what it is set to, the buffer) for each buffer that the program writes."""
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
    """Whether the kernel of `node` may have its operand `state` as its result."""
    if _form(node.meta[SPEC]) != _form(state):
        return False
    if _name(node) in IN_PLACE:
        return True
    reads = [source for source in node.all_input_nodes if source.meta.get(SPEC) is state]
    return _name(node) in _UPDATES and reads == [node.args[0]] and list(node.args).count(reads[0]) == 1


def _form(spec: TensorSpec) -> tuple[object, ...]:
    return spec.dtype, spec.shape, spec.dim_order


def _name(node: Node) -> str:
    target = node.target
    return target._schema.name.removeprefix("aten::") if isinstance(target, OpOverload) else ""


def _symbolic_shape(node: Node) -> tuple[str, ...]:
    return tuple(str(size) for size in node.meta["val"].shape)


def _physical(spec: TensorSpec) -> list[int]:
    """The dims longer than 1, outermost first."""
    return [dim for dim in spec.dim_order if spec.shape[dim] > 1]


def _outermost(spec: TensorSpec, dim: int) -> bool:
    """Whether parts along `dim` are ranges of the tensor's memory."""
    return all(spec.shape[other] == 1 for other in spec.dim_order[: spec.dim_order.index(dim)])


def _offsets(node: Node, source: TensorSpec) -> list[int] | None:
    """Bytes from the start of `source` to each result of `node`; None unless they are ranges of its memory."""
    results = specs_of(node)
    name = _name(node)
    if any(result.dtype != source.dtype for result in results) or not source.shape:
        return None
    if name in SAME_BYTES_NAMES:
        dense = [tuple(range(len(spec.shape))) for spec in (source, *results)]
        plain = all(spec.dim_order == order for spec, order in zip((source, *results), dense, strict=True))
        return [0] if plain and results[0].nbytes == source.nbytes else None
    if name in ("permute", "permute_copy"):
        moved = [int(dim) % len(source.shape) for dim in node.args[1]]  # type: ignore[union-attr,arg-type]
        return [0] if [moved[dim] for dim in _physical(results[0])] == _physical(source) else None
    if name in ("clone", "_to_copy"):
        return [0] if _physical(results[0]) == _physical(source) else None
    if name not in SPLIT_NAMES | {"slice", "slice_copy", "select", "select_copy"}:
        return None
    given = arguments_by_name(node)
    dim = given["dim"]
    if not isinstance(dim, int) or not _outermost(source, dim % len(source.shape)):
        return None
    dim %= len(source.shape)
    if not name.startswith(("select", "unbind")) and any(result.dim_order != source.dim_order for result in results):
        return None
    if name.startswith(("select", "unbind")):  # the dims that are left, in their order
        left = [other - (other > dim) for other in source.dim_order if other != dim]
        if any(left != list(result.dim_order) for result in results):
            return None
    inner = prod(source.shape) // source.shape[dim] * source.dtype.itemsize
    if name in SPLIT_NAMES:
        ends = np.cumsum([0] + [result.nbytes for result in results])
        return [int(end) for end in ends[:-1]] if ends[-1] == source.nbytes else None
    start, step = given.get("start", given.get("index")), given.get("step", 1)
    start = 0 if start is None else start
    if not isinstance(start, int) or step != 1:
        return None
    start = start + source.shape[dim] if start < 0 else start
    offset = min(max(start, 0), source.shape[dim]) * inner
    return [offset] if offset + results[0].nbytes <= source.nbytes else None
