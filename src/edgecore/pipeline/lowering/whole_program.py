"""`to_backend`: compile a whole program with one backend, to a module that other modules can contain."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, overload

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, TensorArgument
from torch.fx import GraphModule, Interpreter, Node

from edgecore import format as fmt
from edgecore.errors import CompileError
from edgecore.ir.control_flow import is_control_flow
from edgecore.ir.delegate import LoweredBackendModule, call_delegate, delegates, is_delegate_call
from edgecore.ir.dialect.verifier import verify
from edgecore.ir.graph import calls, compute_val, describe, edit, fake_mode, handles_of
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.copying import copy_program
from edgecore.ir.program.lazy_constants import load
from edgecore.ir.program.mutable_state import mutable_buffers
from edgecore.ir.program.outputs import is_result
from edgecore.ir.torch_compat import detect_fake_mode, pytree
from edgecore.partition import (
    TAG,
    DelegationSpec,
    PartitionDiagnostics,
    Partitioner,
    PartitionResult,
)
from edgecore.partition import to_backend as delegate_tagged
from edgecore.pipeline.finished_program import FinishedProgram
from edgecore.pipeline.lowering.lowered_program import LoweredProgram
from edgecore.pipeline.preprocess import link, preprocess
from edgecore.plugin import CompileSpec

_modules: list[WholeBackendModule] = []
"""All modules of this process. A torch operator cannot take a module as an argument, so a call in an exported graph has
the index of its module here. Therefore the modules are kept until the process ends.
"""


class WholeBackendModule(LoweredBackendModule):
    """A program that a backend compiled as a whole; `to_backend` returns it.

    Another module may contain this module. If that module is exported and lowered, the calls of this module become
    delegate calls. In Python, a call of this module computes the original program with torch.

    Attributes:
        backend_id: The id of the backend.
        result: The result of the backend's `preprocess`.
        compile_specs: The compile specs that were passed to `preprocess`.
        original_module: The computation of the delegate, as a program.
    """

    def __init__(self, module: LoweredBackendModule, lowered: ExportedProgram, program: ExportedProgram) -> None:
        super().__init__(
            module.backend_id, module.result, module.compile_specs, module.original_module, module.distribution
        )
        self.lowered = lowered
        self.edge_program = program
        # torch.export in strict mode traces `forward`, so `forward` may only use plain attributes.
        self._in_spec, self._out_spec = program.call_spec
        self._results = [spec.arg for spec in program.graph_signature.output_specs]
        self._number = len(_modules)
        _modules.append(self)

    def buffer(self) -> bytes:
        """Return a `.pte` with the method `forward`, which calls the delegate."""
        return self._finished().buffer

    def program(self) -> fmt.Program:
        """Return the tables of the `.pte` that `buffer` returns."""
        return self._finished().pte.inline()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the program with the signature of the module that was exported."""
        inputs, in_spec = pytree.tree_flatten((args, kwargs))
        if in_spec != self._in_spec:
            raise TypeError(f"the lowered program takes {self._in_spec}, as it was exported, not {in_spec}")
        for value in inputs:
            if not isinstance(value, torch.Tensor):
                raise TypeError(f"a lowered program that is part of a module takes tensors only, not {value!r}")
        results = iter(torch.ops.edgecore.call_lowered(self._number, inputs))
        if any(not isinstance(result, (TensorArgument, ConstantArgument)) for result in self._results):
            raise TypeError("a lowered program that is part of a module returns tensors and constants only")
        values = [result.value if isinstance(result, ConstantArgument) else next(results) for result in self._results]
        return pytree.tree_unflatten(values, self._out_spec)

    def _finished(self) -> FinishedProgram:
        return LoweredProgram({"forward": copy_program(self.lowered)}).finish()

    @cached_property
    def _eager(self) -> torch.nn.Module:
        return self.edge_program.module(check_guards=False)


@torch.library.custom_op("edgecore::call_lowered", mutates_args=())
def _call_lowered(number: int, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Compute the program of a `WholeBackendModule` with torch."""
    module = _modules[number]
    in_spec, _ = module.edge_program.call_spec
    args, kwargs = pytree.tree_unflatten(list(inputs), in_spec)
    outputs = pytree.tree_leaves(module._eager(*args, **kwargs))
    # An operator must not return its inputs, so clone the outputs. `forward` adds outputs that are constants.
    return [output.clone() for output in outputs if isinstance(output, torch.Tensor)]


@_call_lowered.register_fake
def _(number: int, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    program = _modules[number].edge_program
    mode = detect_fake_mode(inputs)
    assert mode is not None
    constants, values_of_inputs = Constants(program), iter(inputs)
    values = [
        mode.from_tensor(load(constants.get(node))) if constants.has(node) else next(values_of_inputs)
        for node in program.graph.nodes
        if node.op == "placeholder"
    ]
    outputs = Interpreter(program.graph_module).run(*values)
    return [output.clone() for output in outputs if isinstance(output, torch.Tensor)]


@overload
def to_backend(
    backend: str, program: ExportedProgram, compile_specs: Sequence[CompileSpec] = ()
) -> WholeBackendModule: ...
@overload
def to_backend(backend: ExportedProgram, program: Partitioner) -> ExportedProgram: ...


def to_backend(
    backend: str | ExportedProgram,
    program: ExportedProgram | Partitioner,
    compile_specs: Sequence[CompileSpec] = (),
) -> WholeBackendModule | ExportedProgram:
    """Compile a whole edge program with a backend; or, as in ExecuTorch, only the parts that a partitioner tags.

    Args:
        backend: The id of the backend; in ExecuTorch's second form, the edge program.
        program: The edge program, such as `to_edge(...).exported_program()`, which is not changed; in the second form,
            the partitioner.
        compile_specs: The compile specs that are passed to the backend.

    Returns:
        A module that other modules can contain, or whose `buffer()` is a `.pte`; for a partitioner, an edge program
        with delegate calls.

    Raises:
        BackendError: The package of the backend is not installed or is broken.
        CompileError: The backend refuses an operator, or the program has mutable buffers, branches or loops.

    Example:
        >>> edge = edgecore.to_edge(torch.export.export(model, inputs))
        >>> lowered = to_backend("XnnpackBackend", edge.exported_program(), [])
        >>> Path("model.pte").write_bytes(lowered.buffer())
    """
    if isinstance(backend, ExportedProgram):
        if isinstance(program, ExportedProgram):
            raise TypeError("to_backend takes an edge program and a partitioner, not two edge programs")
        return _delegated(backend, program, required=False)
    if not isinstance(backend, str) or not isinstance(program, ExportedProgram):
        types = f"{type(backend).__name__} and {type(program).__name__}"
        raise TypeError(
            "to_backend takes the id of a backend and an edge program, such as edge.exported_program(), or an edge "
            f"program and a partitioner; not {types}"
        )
    verify(program)
    if mutable_buffers(program):
        names = ", ".join(buffer.name for buffer in mutable_buffers(program))
        raise CompileError(
            f"a program that writes buffers ({names}) cannot be a delegate as a whole: use a partitioner"
        )
    lowered = _delegated(program, _Everything(DelegationSpec(backend, tuple(compile_specs))), required=True)
    compiled = delegates(lowered)
    if not compiled:
        raise CompileError("the program calls no operator, so there is nothing to compile")
    return WholeBackendModule(compiled[0][1], lowered, copy_program(program))


def _delegated(program: ExportedProgram, partitioner: Partitioner, *, required: bool) -> ExportedProgram:
    methods, partitioners = {"forward": copy_program(program)}, {"forward": partitioner}
    required_ones = [partitioner] if required else []
    diagnostics = {"forward": PartitionDiagnostics()}
    return delegate_tagged(methods, partitioners, preprocess, diagnostics, required=required_ones, link=link)["forward"]


class _Everything:
    """The partitioner that tags all computations on tensors."""

    def __init__(self, spec: DelegationSpec) -> None:
        self.spec = spec

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        for node in calls(exported_program.graph_module):
            if is_control_flow(node) or is_delegate_call(node):
                raise CompileError(f"{describe(node)} cannot be inside of a delegate")
            if not isinstance(node.meta["val"], (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)):
                node.meta[TAG] = self.spec.backend_id
        return PartitionResult(exported_program, {self.spec.backend_id: self.spec})

    def ops_to_not_decompose(self, exported_program: ExportedProgram) -> tuple[Sequence[Any], None]:
        return (), None


def place_lowered_modules(program: ExportedProgram) -> ExportedProgram:
    """Replace the calls of `WholeBackendModule`s in an edge program by delegates, in place.

    Raises:
        CompileError: A call has no module, because the program was exported in another process.
    """
    nodes = calls(program.graph_module, torch.ops.edgecore.call_lowered.default)
    if nodes:
        with edit(program) as graph_module:
            for node in nodes:
                _place(graph_module, node)
    return program


def _place(graph_module: GraphModule, node: Node) -> None:
    number, arguments = node.args
    assert isinstance(number, int) and isinstance(arguments, (list, tuple))
    if number >= len(_modules):
        raise CompileError(f"{describe(node)}: the lowered module was made in another process; call to_backend here")
    lowered, mode = _modules[number].lowered, fake_mode(graph_module)
    kinds = {spec.arg.name: spec.kind for spec in lowered.graph_signature.input_specs}
    inputs = iter(arguments)
    copies: dict[Node, Any] = {}
    for inner in lowered.graph.nodes:
        if inner.op == "placeholder":
            # None stands for a weight outside of the delegate, which can only be an output that the program returns
            # unchanged.
            copies[inner] = next(inputs) if kinds[inner.name] == InputKind.USER_INPUT else None
        elif inner.op == "call_function" and not is_delegate_call(inner) and inner.target is not operator.getitem:
            with graph_module.graph.inserting_before(node):
                copy = graph_module.graph.node_copy(inner, copies.__getitem__)
            assert callable(copy.target)
            copy.meta = {**inner.meta, "val": compute_val(mode, copy.target, copy.args, copy.kwargs)}
            copy.meta.pop("debug_handle", None)
            copies[inner] = copy
        elif is_delegate_call(inner):
            copies[inner] = _place_call(graph_module, node, inner, lowered, copies)
        elif inner.op == "call_function":
            position = inner.args[1]
            with graph_module.graph.inserting_before(node):
                copies[inner] = graph_module.graph.call_function(operator.getitem, (copies[inner.args[0]], position))
            copies[inner].meta = {"val": copies[inner.args[0]].meta["val"][position]}
    outputs = _output_nodes(lowered)
    specs = lowered.graph_signature.output_specs
    assert all(is_result(spec) for spec in specs)
    for user in list(node.users):
        value = copies[outputs[user.args[1]]]  # type: ignore[index]  # a list of tensors is only read by getitem
        if value is None:
            raise CompileError(f"{describe(node)} returns a weight unchanged, which a delegate cannot")
        user.replace_all_uses_with(value)


def _place_call(
    graph_module: GraphModule, node: Node, inner: Node, lowered: ExportedProgram, copies: dict[Node, Any]
) -> Node:
    """Insert the call of a delegate before `node`; `inner` is that call in the lowered program."""
    outputs = _output_nodes(lowered)
    vals = list(inner.meta["val"])
    for index, output in enumerate(outputs):
        if output.op == "call_function" and output.args[0] is inner:
            vals[output.args[1]] = node.meta["val"][index]  # type: ignore[index]
    offset = max((handle for call in calls(graph_module) for handle in handles_of(call)), default=0)
    module = _renumbered(getattr(lowered.graph_module, str(inner.args[0].target)), offset)  # type: ignore[union-attr]
    name = f"lowered_module_{len(calls(graph_module, call_delegate))}"
    graph_module.add_module(name, module)
    with graph_module.graph.inserting_before(node):
        attribute = graph_module.graph.get_attr(name)
        arguments = [copies[argument] for argument in inner.args[1:]]  # type: ignore[index]
        call = graph_module.graph.call_function(call_delegate, (attribute, *arguments))
    attribute.meta["val"] = None
    call.meta = {**inner.meta, "val": tuple(vals)}
    call.meta["debug_handle"] = [handle + offset for handle in handles_of(inner)]
    return call


def _output_nodes(program: ExportedProgram) -> list[Node]:
    """Return the output nodes of a program that are not constants; a call of the program returns only these."""
    outputs = program.graph.output_node().args[0]
    assert isinstance(outputs, (list, tuple))
    return [output for output in outputs if isinstance(output, Node)]


def _renumbered(module: LoweredBackendModule, offset: int) -> LoweredBackendModule:
    """Add `offset` to the debug handles in a copy of a delegate: another program already uses the same handles."""
    handles = {key: tuple(handle + offset for handle in value) for key, value in module.result.debug_handle_map.items()}
    original = copy_program(module.original_module)
    for node in original.graph.nodes:
        if "debug_handle" in node.meta:
            node.meta["debug_handle"] += offset
    result = replace(module.result, debug_handle_map=handles)
    return LoweredBackendModule(module.backend_id, result, module.compile_specs, original, module.distribution)
