"""Identify the operators of a file independently of how the file was compiled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from edgecore import format as fmt
from edgecore.devtools.graph.builder import graph_of


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of the model. Its `key` stays the same when the model is compiled for another backend.

    Attributes:
        method: Name of the method.
        module: Path of its module.
        operator: Name: "aten.linear.default".
        ordinal: Its index, from 0, among the operators with this name in this module.
        backend: Id of the backend that computes it, "kernels", or both, joined by "+".
        source: Line of the source.
        arguments: Non-tensor arguments of the kernels that compute it; empty in a delegate.
    """

    method: str
    module: str
    operator: str
    ordinal: int
    backend: str
    source: str = ""
    arguments: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str, int]:
        """The identity of the operator: method, module, name and ordinal."""
        return self.method, self.module, self.operator, self.ordinal


def operators_of(pte: fmt.PteFile) -> list[Operator]:
    """Return the operators of a file, in the order of the exported graph, then kernels that belong to no operator.

    A file of another compiler has no operators, only kernels without modules.
    """
    meta = fmt.get_meta(pte)
    operators = []
    for method in graph_of(pte).methods:
        about = meta.method(method.name) if meta else None
        origins = {origin.handle: origin for origin in about.debug_handles} if about else {}
        placed: dict[int, dict[str, None]] = {}
        arguments_of: dict[int, list[str]] = {}
        rows, extra = [], []
        for node in method.nodes:
            if node.kind == "kernel" and not node.handles:
                extra.append(("", node.operator, node.backend, "", node.arguments))
            elif node.kind in ("kernel", "operator"):
                for handle in node.handles:
                    placed.setdefault(handle, {})[node.backend] = None
                    arguments_of.setdefault(handle, []).extend(node.arguments)
        for handle, backends in sorted(placed.items()):
            origin, runs_on = origins[handle], "+".join(sorted(backends))
            rows.append((origin.module_path, origin.operator_name, runs_on, origin.source, arguments_of[handle]))
        counts: Counter[tuple[str, str]] = Counter()
        for path, name, backend, source, arguments in (*rows, *extra):
            operators.append(Operator(method.name, path, name, counts[path, name], backend, source, tuple(arguments)))
            counts[path, name] += 1
    return operators
