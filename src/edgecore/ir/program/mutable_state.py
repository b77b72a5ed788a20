"""The mutable buffers of an exported program: state that a run leaves for the next run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

from edgecore.ir.program.copying import buffer_of


@dataclass(frozen=True)
class MutableBuffer:
    """A mutable buffer of one program.

    Attributes:
        name: The qualified name, such as `layers.0.k_cache`. Methods that share the buffer use the same name.
        node: The placeholder, whose `val` has dtype, shape and strides.
        update: The node that computes the new content; `node` itself if the program only reads the buffer.
        initial: The initial content.
    """

    name: str
    node: Node
    update: Node
    initial: torch.Tensor

    @property
    def is_written(self) -> bool:
        """True if the program may change the content of the buffer."""
        return self.update is not self.node

    @property
    def nbytes(self) -> int:
        """The size of the content in bytes."""
        return int(self.initial.numel() * self.initial.element_size())

    @property
    def uses(self) -> list[Node]:
        """The nodes that read the buffer, and the node that computes the new content."""
        readers = [user for user in self.node.users if user.op != "output"]
        return [*readers, self.update] if self.is_written and self.update not in readers else readers


def mutable_buffers(program: ExportedProgram) -> list[MutableBuffer]:
    """List the mutable buffers of a program in the order of its inputs.

    A buffer that other methods write and this program only reads is also mutable.

    Args:
        program: A functional program, as passed to `Partitioner.partition`, or a partition, as passed to `preprocess`.

    Example:
        >>> [buffer.name for buffer in mutable_buffers(program)]
        ['layers.0.k_cache', 'layers.0.v_cache']
    """
    updates = {spec.target: value for value, spec in _results(program) if spec.kind == OutputKind.BUFFER_MUTATION}
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    return [
        MutableBuffer(spec.target, placeholders[spec.arg.name], updates[spec.target], buffer_of(program, spec.target))
        for spec in program.graph_signature.input_specs
        if spec.kind == InputKind.BUFFER and spec.target is not None and spec.target in updates
    ]


def freeze(program: ExportedProgram, names: Collection[str]) -> None:
    """Make buffers keep their content: the program no longer computes new content, but still lists them as mutable."""
    nodes = {buffer.name: buffer.node for buffer in mutable_buffers(program) if buffer.name in names}
    output = program.graph.output_node()
    output.args = (
        tuple(
            nodes[spec.target] if spec.kind == OutputKind.BUFFER_MUTATION and spec.target in nodes else value
            for value, spec in _results(program)
        ),
    )


def remove_buffers(program: ExportedProgram, names: Collection[str]) -> None:
    """Remove the mutable buffers `names`, which no node reads or updates any more."""
    signature = program.graph_signature
    buffers = [buffer for buffer in mutable_buffers(program) if buffer.name in names]
    kept = [
        (value, spec)
        for value, spec in _results(program)
        if spec.kind != OutputKind.BUFFER_MUTATION or spec.target not in names
    ]
    program.graph.output_node().args = (tuple(value for value, _ in kept),)
    signature.output_specs[:] = [spec for _, spec in kept]
    signature.input_specs[:] = [
        spec for spec in signature.input_specs if spec.kind != InputKind.BUFFER or spec.target not in names
    ]
    for buffer in buffers:
        program.graph.erase_node(buffer.node)
        program.state_dict.pop(buffer.name, None)
        program.constants.pop(buffer.name, None)
    program.graph_module.recompile()


def _results(program: ExportedProgram) -> list[tuple[Any, Any]]:
    """Return the results of a program, each paired with its output spec."""
    values = program.graph.output_node().args[0]
    assert isinstance(values, (tuple, list))
    return list(zip(values, program.graph_signature.output_specs, strict=True))
