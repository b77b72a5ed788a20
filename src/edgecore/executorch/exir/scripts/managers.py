"""`EdgeProgramManager` with ExecuTorch's passes and defaults, and ExecuTorch's names of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassBase
from typing_extensions import Self

from edgecore.executorch.exir import config as edge_config
from edgecore.executorch.exir import program as edge_program
from edgecore.executorch.exir.config import EdgeCompileConfig
from edgecore.executorch.exir.passes import flat
from edgecore.executorch.exir.scripts.config import ExecutorchBackendConfig
from edgecore.ir.graph import all_calls, edit
from edgecore.ir.torch_compat import OpOverload
from edgecore.passes import EDGE_PASSES, PassResult
from edgecore.passes.pass_list import NamedPass, PassList, name_of
from edgecore.pipeline.lowering.methods import Programs, programs_by_method

GraphPass = Callable[[GraphModule], "PassResult | None"]
"""A pass of ExecuTorch: a `PassBase`, a manager of passes, or a function that edits a graph module."""

Passes = GraphPass | Sequence[GraphPass] | Mapping[str, Sequence[GraphPass]]
"""A pass or several for all methods, or a mapping from names of methods to passes."""


class EdgeProgramManager(edge_program.EdgeProgramManager):
    """The edge programs of all methods. Passes that are functions take graph modules, as in ExecuTorch."""

    def __init__(
        self,
        edge_programs: Programs,
        constant_methods: Mapping[str, object] | None = None,
        compile_config: EdgeCompileConfig | None = None,
    ) -> None:
        """Make a manager of edge programs; a single program becomes the method `forward`."""
        allowed = (compile_config or EdgeCompileConfig()).allowed
        super().__init__(programs_by_method(edge_programs), constant_methods=constant_methods, allowed=allowed)

    def transform(self, passes: Any, compile_config: EdgeCompileConfig | None = None) -> Self:
        """Apply passes (`Passes`) to a copy of every method; see `edgecore.EdgeProgramManager.transform`.

        Operators that `compile_config` allows may be in the results, too.
        """
        # `allowing` shares the programs with `self`; `transform` copies them before passes edit them.
        allowing = self.of(self)
        allowing._allowed = {*self._allowed, *(compile_config or EdgeCompileConfig()).allowed}
        return super(EdgeProgramManager, allowing).transform(on_graphs(passes))

    def to_executorch(self, config: edge_config.ExecutorchBackendConfig | None = None) -> Any:
        """Make the file; without a config, memory is planned for inputs and outputs, too."""
        return super().to_executorch(config or ExecutorchBackendConfig())


class _OnGraph(PassBase):
    """Makes a pass from a function over graph modules, or from a manager of passes."""

    def __init__(self, function: GraphPass) -> None:
        self.__name__ = name_of(function)
        self._function = function

    def call(self, graph_module: GraphModule) -> PassResult:
        return self._function(graph_module) or PassResult(graph_module, True)


def on_graphs(passes: Any) -> Any:
    """Convert passes of ExecuTorch (`Passes`), whose functions take graph modules, to passes of edgecore."""
    if isinstance(passes, Mapping):
        return {method: on_graphs(of_method) for method, of_method in passes.items()}
    return [
        transform if isinstance(transform, (PassBase, NamedPass)) else _OnGraph(transform) for transform in flat(passes)
    ]


def name_nodes(program: ExportedProgram) -> ExportedProgram:
    """Name the calls of operators as ExecuTorch's edge programs do: `aten_add_tensor`, `aten_add_tensor_1`."""
    with edit(program) as graph_module:
        for node in all_calls(graph_module):
            if isinstance(node.target, OpOverload):
                name = f"{node.target.namespace}_{node.target.__name__.replace('.', '_')}".lower()
                if not node.name.removeprefix(name).removeprefix("_").isdigit() and node.name != name:
                    node._rename(name)
    return program


def edge_passes() -> PassList:
    """Return the passes of lowering with `name_nodes` as the last one before transform passes and partitioners."""
    return EDGE_PASSES.insert_after(EDGE_PASSES.of_stage("edge")[-1].name, name_nodes)
