"""Lists of passes. Each pass has a name, by which users edit the lists, and a guarantee."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, overload

from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassBase

from edgecore.errors import CompileError
from edgecore.ir.torch_compat import OpOverload
from edgecore.passes.decompose import KERNEL_REWRITES, REWRITES, Preserve, Rewrite, preserve_nothing

ProgramPass = Callable[[ExportedProgram], ExportedProgram]
Pass = ProgramPass | PassBase
"""A pass: a function, or a `PassBase` such as `ExportPass`.

A function takes a program, which it may edit, and returns that program or another one. A `PassBase` edits the graph
module; its methods `requires` and `ensures` check the graph before and after.
"""

Stage = Literal["exported", "methods", "edge", "undelegated", "memory"]
"""The stage of lowering in which a pass runs.

`exported`: runs on each method as `torch.export` returns it. `methods`: runs on each method once the stage `exported`
is done for all methods. `edge`: lowers to the edge dialect, before transform passes and partitioners. `undelegated`:
runs on the nodes outside of delegates, after the partitioners. `memory`: runs before memory planning.
"""


@dataclass
class PassContext:
    """Facts about one compilation that some passes need in addition to the program.

    Attributes:
        preserve_for: Takes a program; returns the function that is True for nodes that `decompose` must preserve.
        preserved: The operators for which that function may return True. The verifier allows them in addition to the
            operators of the edge dialect.
        written_buffers: Qualified names of the buffers that any method writes.
        rewrites: The direct rewrites of `decompose`, which depend on the target runtime.
    """

    preserve_for: Callable[[ExportedProgram], Preserve] = lambda program: preserve_nothing
    preserved: set[OpOverload] = field(default_factory=set)
    written_buffers: frozenset[str] = frozenset()
    rewrites: Mapping[OpOverload, Rewrite] = field(default_factory=lambda: REWRITES)

    @property
    def has_own_kernels(self) -> bool:
        """True if the target runtime has edgecore's own operators."""
        return self.rewrites is KERNEL_REWRITES


@dataclass(frozen=True)
class NamedPass:
    """A pass of a `PassList`.

    Attributes:
        name: The name by which users refer to the pass.
        function: The pass.
        guarantee: A sentence about the program after the pass.
        when: The condition under which the pass changes a program, as text for the documentation; empty if there is no
            condition.
        stage: The stage of lowering in which the pass runs.
        needs_context: True if `function` takes a `PassContext` as its second argument.
    """

    name: str
    function: Callable[..., Any] | PassBase
    guarantee: str = ""
    when: str = ""
    stage: Stage = "edge"
    needs_context: bool = False

    def bind(self, context: PassContext) -> NamedPass:
        """Bind `context` to the pass, because the pass manager passes only a program."""
        if not self.needs_context or isinstance(self.function, PassBase):
            return self
        return replace(self, function=partial(self.function, context=context), needs_context=False)


class PassList(Sequence[NamedPass]):
    """An immutable list of passes in the order in which they run. Methods that edit the list return a new list.

    A pass is a `NamedPass`, a function or a `PassBase`. A function is named after itself, a `PassBase` after its class;
    both run in the stage of the pass before or after which they are inserted.

    Example:
        >>> from edgecore.passes import EDGE_PASSES
        >>> passes = EDGE_PASSES.insert_after("fold_constants", my_pass).skip("fuse_batch_norm")
        >>> edgecore.compile(model, inputs, passes=passes)

    Raises:
        CompileError: Two passes have the same name, or a method is passed a name that no pass of the list has.
    """

    def __init__(self, passes: Iterable[NamedPass]) -> None:
        self._passes = tuple(passes)
        names = self.names
        for name in names:
            if names.count(name) > 1:
                raise CompileError(
                    f"two passes are called {name!r}: give one of them another name, NamedPass(name, function)"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the passes in order."""
        return tuple(entry.name for entry in self._passes)

    def insert_before(self, name: str, *passes: Pass | NamedPass) -> PassList:
        """Return a list in which `passes` run directly before the pass `name`."""
        return self._spliced(self._index(name), 0, passes, name)

    def insert_after(self, name: str, *passes: Pass | NamedPass) -> PassList:
        """Return a list in which `passes` run directly after the pass `name`."""
        return self._spliced(self._index(name) + 1, 0, passes, name)

    def replace(self, name: str, *passes: Pass | NamedPass) -> PassList:
        """Return a list in which `passes` run in place of the pass `name`."""
        return self._spliced(self._index(name), 1, passes, name)

    def skip(self, *names: str) -> PassList:
        """Return a list without the passes of these names."""
        for name in names:
            self._index(name)
        return PassList(entry for entry in self._passes if entry.name not in names)

    def of_stage(self, stage: Stage) -> list[NamedPass]:
        """Return the passes of one stage in order."""
        return [entry for entry in self._passes if entry.stage == stage]

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise CompileError(f"no pass {name!r}: there are {', '.join(self.names)}")
        return self.names.index(name)

    def _spliced(self, start: int, count: int, passes: Sequence[Pass | NamedPass], beside: str) -> PassList:
        stage = self._passes[self._index(beside)].stage
        named = [
            item if isinstance(item, NamedPass) else NamedPass(name_of(item), item, stage=stage) for item in passes
        ]
        return PassList((*self._passes[:start], *named, *self._passes[start + count :]))

    @overload
    def __getitem__(self, index: int) -> NamedPass: ...
    @overload
    def __getitem__(self, index: slice) -> PassList: ...

    def __getitem__(self, index: int | slice) -> NamedPass | PassList:
        return PassList(self._passes[index]) if isinstance(index, slice) else self._passes[index]

    def __len__(self) -> int:
        return len(self._passes)

    def __iter__(self) -> Iterator[NamedPass]:
        return iter(self._passes)

    def __repr__(self) -> str:
        return f"PassList({', '.join(self.names)})"


def name_of(transform: Callable[..., Any] | NamedPass) -> str:
    """Return the name of a pass for messages and file names."""
    if isinstance(transform, NamedPass):
        return transform.name
    return str(getattr(transform, "__name__", type(transform).__name__))
