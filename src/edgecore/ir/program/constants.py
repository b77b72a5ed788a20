"""The constants of an exported program: placeholders for its parameters, buffers and lifted tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node

from edgecore.ir.graph import fake_mode
from edgecore.ir.program.lazy_constants import load
from edgecore.ir.program.outputs import written_buffers

PART_OF = ":"
"""The separator in the name of a constant that was computed from a parameter: `head.weight:scale`. PyTorch's
names contain no colon.
"""


def parameter_of(name: str) -> str:
    """Return the name of the parameter from which a constant was computed: `head.weight` for `head.weight:scale`."""
    return name.partition(PART_OF)[0]


_CONSTANT_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


class Constants:
    """The constant placeholders of one program: read, replace, add and remove them.

    A buffer that the program writes is mutable state, not a constant.

    Attributes:
        program: The program.
        specs: The input spec of each constant, by the name of its placeholder.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        mutated = written_buffers(program)
        self.specs: dict[str, InputSpec] = {
            spec.arg.name: spec
            for spec in program.graph_signature.input_specs
            if spec.kind in _CONSTANT_KINDS and spec.target not in mutated
        }

    def has(self, node: Any) -> bool:
        """Return True if `node` is a constant of the program."""
        if not isinstance(node, Node) or node.op != "placeholder" or node.name not in self.specs:
            return False
        # compare the graphs, too: a placeholder of a loop body may have the same name as a constant
        return node.graph is self.program.graph

    def get(self, node: Node) -> torch.Tensor:
        """Return the tensor of a constant placeholder, detached. A lazy constant is loaded."""
        return load(self.stored(node))

    def stored(self, node: Node) -> torch.Tensor:
        """Return the tensor of a constant placeholder like `get`, but without loading a lazy constant."""
        target = self.specs[node.name].target
        assert target is not None
        tensor = self.program.state_dict.get(target)
        if tensor is None:
            tensor = self.program.constants[target]
        assert isinstance(tensor, torch.Tensor)
        return tensor.detach()

    def set(self, node: Node, tensor: torch.Tensor) -> None:
        """Replace the tensor of a constant placeholder; other placeholders of the same weight keep the old tensor."""
        spec = self.specs[node.name]
        target = f"{spec.target}{PART_OF}{node.name}" if self._shared(spec) else spec.target
        assert target is not None
        self.program.constants.pop(target, None)
        self.program.state_dict[target] = tensor
        spec.kind, spec.target, spec.persistent = InputKind.BUFFER, target, True
        node.meta["val"] = fake_mode(self.program.graph_module).from_tensor(tensor, static_shapes=True)

    def _shared(self, spec: InputSpec) -> bool:
        return sum(other.target == spec.target for other in self.specs.values()) > 1

    def add(self, name: str, tensor: torch.Tensor, made_of: Any = None) -> Node:
        """Add a constant placeholder before the first node that is not a constant, and return the placeholder.

        Args:
            name: The name of the constant. The placeholder's name has underscores instead of dots; if that name is
                taken, the placeholder is called `name_1` or similar.
            tensor: The content.
            made_of: The placeholder of the constant from which the content was computed; `external_data` stores both in
                the same file.
        """
        program, graph = self.program, self.program.graph_module.graph
        taken = set(program.state_dict) | set(program.constants) | {node.name for node in graph.nodes}
        unique, count = name, 0
        while {unique, unique.replace(".", "_")} & taken:
            count += 1
            unique = f"{name}_{count}"
        index, first = next((index, node) for index, node in enumerate(graph.nodes) if node.name not in self.specs)
        with graph.inserting_before(first):
            # torch.fx makes the placeholder a parameter of a Python function, whose name must not begin with a digit.
            parameter = unique.replace(".", "_")
            node: Node = graph.placeholder(parameter if parameter.isidentifier() else f"p_{parameter}")
        node.meta["val"] = fake_mode(program.graph_module).from_tensor(tensor, static_shapes=True)
        if self.has(made_of):
            unique = f"{parameter_of(str(self.specs[made_of.name].target))}{PART_OF}{unique}"
        spec = InputSpec(InputKind.BUFFER, TensorArgument(node.name), unique, persistent=True)
        program.graph_signature.input_specs.insert(index, spec)
        program.state_dict[unique] = tensor
        self.specs[node.name] = spec
        return node

    def drop_unused(self) -> None:
        """Remove the constants that no node uses from the graph, the signature and the tensors of the program."""
        unused = set()
        for node in list(self.program.graph_module.graph.nodes):
            if self.has(node) and not node.users:
                unused.add(node.name)
                self.program.graph_module.graph.erase_node(node)
        if not unused:
            return
        specs = self.program.graph_signature.input_specs
        dropped = [spec for spec in specs if spec.arg.name in unused]
        specs[:] = [spec for spec in specs if spec.arg.name not in unused]
        used_targets = {spec.target for spec in specs}
        for spec in dropped:
            self.specs.pop(spec.arg.name)
            if spec.target is not None and spec.target not in used_targets:
                self.program.state_dict.pop(spec.target, None)
                self.program.constants.pop(spec.target, None)
        self.program.graph_module.recompile()
