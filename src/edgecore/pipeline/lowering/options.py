"""Settings of lowering, of the last passes, and of the file."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from edgecore import format as fmt
from edgecore.emit import ExternalConstants
from edgecore.errors import CompileError, FormatError
from edgecore.ir.torch_compat import OpOverload
from edgecore.memory import MemoryPlanningPass
from edgecore.partition import Partitioner
from edgecore.passes.decompose import REWRITES, Rewrite
from edgecore.passes.pass_list import NamedPass, Pass, PassList
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.pipeline.lowering.pass_dump import PassDump

TransformPasses = Sequence[Pass | NamedPass] | Mapping[str, Sequence[Pass | NamedPass]]


@dataclass(frozen=True)
class LowerOptions:
    """Settings of `lower` and `lower_to_edge`.

    Attributes:
        passes: The passes to run: `EDGE_PASSES`, or a list made from it.
        transform_passes: Additional passes, which run after the stage `edge` and before the first partitioner; or a
            mapping from names of methods to such passes.
        constant_methods: Methods without inputs that return a constant: name -> number, string, tensor, or a list.
        required: Partitioners whose failure is an error instead of a warning.
        skip_mutable_buffer: Partitioners whose claims of mutable buffers are refused.
        rewrites: Rewrites of the target runtime for operators that are not delegated.
        allowed: Operators that the verifier allows in addition to the edge dialect.
        preserved: Operators that are not decomposed, for kernels of the user.
        dump: Writes the graph after each pass; None to write nothing.
        keep_programs: True to keep the exported and the edge programs with the result (`KeptPrograms`).
    """

    passes: PassList = EDGE_PASSES
    transform_passes: TransformPasses = ()
    constant_methods: Mapping[str, object] | None = None
    required: Sequence[Partitioner] = ()
    skip_mutable_buffer: Sequence[Partitioner] = ()
    rewrites: Mapping[OpOverload, Rewrite] = field(default_factory=lambda: REWRITES)
    allowed: Collection[OpOverload] = frozenset()
    preserved: Collection[OpOverload] = frozenset()
    dump: PassDump | None = None
    keep_programs: bool = False


@dataclass(frozen=True)
class FinishOptions:
    """Settings of `LoweredProgram.finish`: the last passes, the memory plan and the file.

    Attributes:
        runtime: The target runtime: `executorch-1.5` or `edgecore`.
        planning: The pass that places tensors in arenas, or a mapping from names of methods to such passes.
        passes: Passes that run before the stage `memory`.
        external_constants: The weights to store in `.ptd` files; see `edgecore.compile`.
        alignments: Alignments of segments and constants in the files, in bytes.
        shares_views: False to copy the elements of views instead of sharing memory.
    """

    runtime: str = fmt.EXECUTORCH_1_5
    planning: MemoryPlanningPass | Mapping[str, MemoryPlanningPass] = field(default_factory=MemoryPlanningPass)
    passes: Sequence[Pass | NamedPass] = ()
    external_constants: ExternalConstants = False
    alignments: fmt.Alignments = fmt.DEFAULT_ALIGNMENTS
    shares_views: bool = True

    def planning_of(self, method: str) -> MemoryPlanningPass:
        """Return the memory planning pass of a method; the default pass if the mapping `planning` lacks the method."""
        by_method = self.planning
        planning = by_method.get(method, MemoryPlanningPass()) if isinstance(by_method, Mapping) else by_method
        if self.shares_views:
            return planning
        changed = copy.copy(planning)  # `dataclasses.replace` would call the constructor, which a subclass may change
        object.__setattr__(changed, "reuse", False)
        return changed


def file_alignments(segment: int, constant: int | None, delegate: int | None = None) -> fmt.Alignments:
    """Return the alignments of segments and constants in files.

    Args:
        segment: Alignment of each segment, in bytes: a power of two of at least 128.
        constant: Smallest alignment of constant tensors, in bytes: a power of two of at least 16. None for 16.
        delegate: Smallest alignment of delegates' blobs, in bytes: a power of two. Blobs are segments, so if this is
            larger than `segment`, it raises the alignment of all segments.

    Raises:
        CompileError: A number is too small or not a power of two.
    """
    if delegate is not None:
        if delegate < 1 or delegate & (delegate - 1):
            raise CompileError(f"delegate_alignment is {delegate}; it must be a power of two")
        segment = max(segment, delegate)
    try:
        return fmt.Alignments(segment, fmt.DEFAULT_ALIGNMENTS.constant if constant is None else constant)
    except FormatError as error:
        raise CompileError(str(error)) from None
