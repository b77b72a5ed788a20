"""Emit an execution plan (values, operators, delegates, instructions) from an edge program and its memory plan."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

from edgecore import format as fmt
from edgecore.emit.check_memory import check_memory
from edgecore.emit.control_flow import emit_control_flow
from edgecore.emit.external import files_of_constants, files_of_delegate
from edgecore.emit.out_variants import Argument, KernelForm, kernel_form
from edgecore.emit.program_data import ProgramData
from edgecore.emit.signature import describe_arguments
from edgecore.errors import CompileError
from edgecore.ir.control_flow import is_control_flow
from edgecore.ir.delegate import LoweredBackendModule, is_delegate_call, module_of
from edgecore.ir.dialect.dtypes import scalar_type
from edgecore.ir.graph import describe, module_path, operator_name, source_line
from edgecore.ir.operators.mutating_operators import Writer, writer_of
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.copying import buffer_of
from edgecore.ir.program.outputs import written_placeholders
from edgecore.ir.torch_compat import OpOverload, overload_name, pytree, schema_of
from edgecore.memory.planning import MemoryPlan
from edgecore.memory.specs import SPEC, TensorSpec, result_specs, specs_of
from edgecore.plugin import PreprocessResult
from edgecore.progress import track

aten = torch.ops.aten

_NUMBER_FUNCTIONS: dict[Any, str] = {
    operator: "add sub mul floordiv truediv mod eq gt ge lt le neg",
    torch: "sym_max sym_min sym_float sym_not sym_int sym_ite",
    math: "ceil trunc",
    builtins: "round",
}
PRIM_OPERATORS: dict[Callable[..., Any], tuple[str, str]] = {
    getattr(module, name): (f"executorch_prim::{name}", "Scalar")
    for module, names in _NUMBER_FUNCTIONS.items()
    for name in names.split()
}
"""Python and torch functions on symbolic numbers -> the runtime's operators (name, overload)."""

NUMBER_OPERATORS = {
    target: (schema_of(target).name, overload_name(target).removeprefix("default"))
    for target in (aten.sym_size.int, aten.sym_numel.default, aten._local_scalar_dense.default)
}
"""Operators that compute a number from a tensor -> their kernels, which return a number instead of an `out` tensor."""

_MEMORY_FORMATS = {torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2}


class Emitter:
    """Emits one method; `program_data` is shared by all methods of a file."""

    def __init__(self, name: str, program: ExportedProgram, plan: MemoryPlan, program_data: ProgramData) -> None:
        self.program, self.program_data = program, program_data
        self.constants = Constants(program)
        self._state_names = written_placeholders(program)  # placeholder -> name of the mutable buffer
        self.files = files_of_constants(program, program_data.rule) if program_data.rule else {}
        self.sharing = plan.sharing
        self.plan = fmt.ExecutionPlan(name=name, non_const_buffer_sizes=plan.sizes)
        self.chain = fmt.Chain()
        self.meta = fmt.MethodMeta(name)
        self._values: dict[Node | TensorSpec, int] = {}
        self._literals: dict[Any, int] = {}
        self._operators: dict[tuple[str, str], int] = {}
        self._delegate_inputs: list[int] = []  # number of inputs of each delegate call, in order
        self._written: dict[int, list[int]] = {}  # index of an instruction -> arguments that it updates in place
        self._new_state: list[int] = []  # values that hold the content of mutable buffers at the end of a run

    def emit(self) -> tuple[fmt.ExecutionPlan, fmt.MethodMeta]:
        """Return the execution plan of the method, and the metadata of the method.

        Raises:
            CompileError: The format cannot represent an operator, a value or an input, or the memory plan is wrong.
        """
        graph = self.program.graph
        inputs = {spec.arg.name: spec for spec in self.program.graph_signature.input_specs}
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        for node in track(placeholders, "storing constants"):
            index = self._placeholder(node)
            if inputs[node.name].kind == InputKind.USER_INPUT:
                self.plan.inputs.append(index)
        for node in graph.nodes:
            if node.op == "call_function":
                self.emit_call(node)
            elif node.op == "output":
                self._outputs(node)
        self.plan.chains = [self.chain]
        content = self.sharing.content.items()
        values = {self.result(spec): [self.result(part) for part in parts] for spec, parts in content}
        check_memory(self.plan, self._delegate_inputs, values, self._new_state, self._written)
        self.meta.inputs, self.meta.outputs = describe_arguments(self.program)
        in_spec, out_spec = self.program.call_spec
        if in_spec is not None and out_spec is not None:
            self.plan.container_meta_type = fmt.ContainerMetadata(_arguments(in_spec), _container(out_spec))
        return self.plan, self.meta

    # Values -----------------------------------------------------------------------------------------------------------

    def add_value(self, value: Any) -> int:
        """Add a value to the plan, and return its index."""
        self.plan.values.append(fmt.EValue(value))
        return len(self.plan.values) - 1

    def literal(self, value: Any) -> int:
        """Return the index of the constant `value`, which no instruction may write; equal constants are stored once."""
        key = (type(value).__name__, repr(value))
        if key not in self._literals:
            self._literals[key] = self.add_value(value)
        return self._literals[key]

    def _placeholder(self, node: Node) -> int:
        spec = node.meta.get(SPEC)
        if isinstance(spec, TensorSpec):
            tensor = self._tensor(spec)
            if self.constants.has(node):
                self._constant(node, spec, tensor)
            elif target := self._state_names.get(node.name):
                tensor.data_buffer_idx = self.program_data.initial_state(
                    buffer_of(self.program, target), spec.dim_order
                )
                tensor.extra_tensor_info = fmt.ExtraTensorInfo(fully_qualified_name=target)
            index = self.add_value(tensor)
            self._values[spec] = index
        else:
            index = self._scalar_input(node)
        self.bind(node, index)
        return index

    def _constant(self, node: Node, spec: TensorSpec, tensor: fmt.Tensor) -> None:
        weight = self.constants.stored(node)
        file = self.files.get(node.name)
        if file is None:
            tensor.data_buffer_idx = self.program_data.constant(weight, spec.dim_order)
            return
        name = str(self.constants.specs[node.name].target)
        key = self.program_data.external_constant(file, name, self.plan.name, weight, spec.dim_order)
        location = fmt.TensorDataLocation.EXTERNAL
        tensor.extra_tensor_info = fmt.ExtraTensorInfo(fully_qualified_name=key, location=location)

    def _scalar_input(self, node: Node) -> int:
        val = node.meta.get("val")
        if isinstance(val, bool):
            return self.add_value(fmt.Bool(val))
        if isinstance(val, (int, torch.SymInt)):
            return self.add_value(fmt.Int(val if isinstance(val, int) else 0))
        if isinstance(val, (float, torch.SymFloat)):
            return self.add_value(fmt.Double(val if isinstance(val, float) else 0.0))
        # `torch.export` specializes a graph to inputs that are None or strings, so the graph does not read them.
        # Strings become null, too, because executorch's runtime accepts no strings as inputs.
        if val is None or isinstance(val, str):
            return self.add_value(fmt.Null())
        raise CompileError(
            f"input {node.name} is a {type(val).__name__}; inputs must be tensors, numbers, bools, strings or None"
        )

    @staticmethod
    def _tensor(spec: TensorSpec) -> fmt.Tensor:
        allocation = None if spec.mem_id is None else fmt.AllocationDetails.at(spec.mem_id, spec.mem_offset)
        dynamism = fmt.TensorShapeDynamism.DYNAMIC_BOUND if spec.dynamic else fmt.TensorShapeDynamism.STATIC
        return fmt.Tensor(
            scalar_type=scalar_type(spec.dtype),
            sizes=list(spec.shape),
            dim_order=list(spec.dim_order),
            allocation_info=allocation,
            shape_dynamism=dynamism,
        )

    def bind(self, node: Node, index: int) -> None:
        """Record that later nodes read the value with this index as the result of `node`."""
        self._values[node] = index

    def result(self, spec: TensorSpec) -> int:
        """Return the index of the tensor value that `spec` describes; the first call with a spec adds the value."""
        if spec not in self._values:
            self._values[spec] = self.add_value(self._tensor(spec))
        return self._values[spec]

    def _absent(self) -> int:
        """Add an empty tensor as the `out` argument of a result that is None: executorch's runtime rejects null."""
        return self.add_value(fmt.Tensor(scalar_type=fmt.ScalarType.BYTE, sizes=[0], dim_order=[0]))

    def _of_node(self, node: Node) -> int:
        if node not in self._values and node.target is operator.getitem:
            return self._values[node.meta[SPEC]]
        return self._values[node]

    def value(self, argument: Argument, node: Node) -> int:
        """Return the index of the plan's value for `argument`, which `node` reads.

        Raises:
            CompileError: The file format cannot hold the argument.
        """
        value, kind = argument.value, argument.type
        if isinstance(value, Node):
            return self._of_node(value)
        if isinstance(value, (list, tuple)):
            return self._list(value, kind, node)
        if value is None or isinstance(value, (torch.layout, torch.device)):
            return self.literal(fmt.Null())
        if isinstance(value, bool):
            return self.literal(fmt.Bool(value))
        if isinstance(value, int):
            return self.literal(fmt.Double(float(value)) if "float" in kind else fmt.Int(value))
        if isinstance(value, float):
            return self.literal(fmt.Double(value))
        if isinstance(value, torch.dtype):
            return self.literal(fmt.Int(scalar_type(value)))
        if isinstance(value, torch.memory_format):
            return self.literal(fmt.Int(_MEMORY_FORMATS[value]))
        if isinstance(value, str):
            return self.literal(fmt.String(value))
        raise CompileError(
            f"{describe(node)}: the .pte format cannot hold the argument {value!r}; arguments must be tensors, "
            "numbers, bools, strings, dtypes, memory formats, or lists of these"
        )

    def _list(self, values: Any, kind: str, node: Node) -> int:
        if "Tensor" in kind:
            items = [-1 if value is None else self._of_node(value) for value in values]
            return self.add_value((fmt.OptionalTensorList if "Optional[Tensor]" in kind else fmt.TensorList)(items))
        if "float" in kind:
            return self.literal(fmt.DoubleList([float(value) for value in values]))
        if "bool" in kind:
            return self.literal(fmt.BoolList([bool(value) for value in values]))
        return self.literal(fmt.IntList([self.value(Argument(value, "int"), node) for value in values]))

    # Instructions -----------------------------------------------------------------------------------------------------

    def _operator(self, name: str, overload: str) -> int:
        key = (name, overload)
        if key not in self._operators:
            self._operators[key] = len(self.plan.operators)
            self.plan.operators.append(fmt.Operator(name, overload))
        return self._operators[key]

    @property
    def position(self) -> int:
        """The index of the next instruction."""
        return len(self.chain.instructions)

    def kernel(self, name: str, overload: str, arguments: list[int], node: Node) -> None:
        """Emit a kernel call; `arguments` are indices of values."""
        self._instruction(fmt.KernelCall(self._operator(name, overload), arguments), node)

    def move(self, source: int, target: int, node: Node) -> None:
        """Emit an instruction that copies value `source` to `target`: a number, or a reference to a tensor."""
        self._instruction(fmt.MoveCall(source, target), node)

    def jump_if_false(self, condition: int, node: Node) -> fmt.JumpFalseCall:
        """Emit a jump that is taken if the boolean value `condition` is false; the caller sets its destination."""
        jump = fmt.JumpFalseCall(condition, 0)
        self._instruction(jump, node)
        return jump

    def _instruction(self, arguments: Any, node: Node) -> None:
        self.chain.instructions.append(fmt.Instruction(arguments))
        handles = node.meta.get("debug_handle", [])
        handles = handles if isinstance(handles, list) else [handles]
        self.meta.instructions.append(fmt.InstructionHandles(handles))
        if handles and not is_delegate_call(node):
            self.meta.debug_handles.append(_debug_handle(handles[0], node))

    def emit_call(self, node: Node) -> None:
        """Emit the instructions of a call node."""
        if node.target is operator.getitem:
            return
        if node in self.sharing.elided:
            values = [self.result(spec) for spec in specs_of(node)]
            # Store a single result here; a split has several, which `_of_node` finds by their tensor specs.
            self._values[node] = values[0]
        elif is_delegate_call(node):
            self._delegate_call(node)
        elif is_control_flow(node):
            emit_control_flow(self, node)
        elif node.target in NUMBER_OPERATORS:
            self._symbolic_call(node, *NUMBER_OPERATORS[node.target])
        elif node.target in PRIM_OPERATORS:
            self._symbolic_call(node, *PRIM_OPERATORS[node.target])
        else:
            self._kernel_call(node)

    def _kernel_call(self, node: Node) -> None:
        form = kernel_form(node)
        arguments = [self.value(argument, node) for argument in form.arguments]
        writer = writer_of(node.target)
        outs = [self._absent() if spec is None else self.result(spec) for spec in result_specs(node)]
        if writer is not None:
            self._writing_call(node, writer, form, arguments, outs)
            return
        returns_list = isinstance(node.target, OpOverload) and len(schema_of(node.target).returns) == 1
        if isinstance(node.meta["val"], torch.Tensor):
            self._values[node] = outs[0]
            arguments += [outs[0], outs[0]]
        elif returns_list:
            result = self.add_value(fmt.TensorList(outs))
            arguments += [result, result]
        else:
            arguments += [*outs, self.add_value(fmt.TensorList(outs))]
        self.kernel(form.name, form.overload, arguments, node)

    def _writing_call(
        self, node: Node, writer: Writer, form: KernelForm, arguments: list[int], results: list[int]
    ) -> None:
        """Emit a call of an operator that updates arguments in place.

        `results` lists the operator's new tensors, then the updated arguments.

        A kernel call in the file ends with the operator's return value, which repeats the results: the new tensors, or
        the updated arguments if the operator makes no new tensor.
        """
        for operand in writer.operands(node):
            if operand.op == "placeholder" and operand.name not in self._state_names:
                raise CompileError(
                    f"{describe(node)} writes {operand.name}, which is a constant or an input; the pass "
                    "copy_before_writes, which was skipped, makes a copy"
                )
        if isinstance(node.meta["val"], torch.Tensor):
            self._values[node] = results[0]
        outs, written = results[: writer.fresh], results[writer.fresh :]
        repeated = outs or written
        arguments += [*outs, repeated[0] if len(repeated) == 1 else self.add_value(fmt.TensorList(repeated))]
        self._written[self.position] = written
        self.kernel(form.name, form.overload, arguments, node)

    def _symbolic_call(self, node: Node, name: str, overload: str) -> None:
        val = node.meta["val"]
        number = fmt.Double if isinstance(val, (float, torch.SymFloat)) else fmt.Int
        empty = fmt.Bool() if isinstance(val, (bool, torch.SymBool)) else number()
        self._values[node] = result = self.add_value(empty)
        # drop None, the second argument of `round`: its kernel lacks this argument
        operands = [value for value in node.args if value is not None]
        arguments = [self.value(Argument(value, "Scalar"), node) for value in operands]
        self.kernel(name, overload, [*arguments, result], node)

    def _delegate_call(self, node: Node) -> None:
        """Emit a delegate call, and store the delegate's blob, named data and metadata."""
        module, inputs = module_of(node), node.args[1:]
        files = files_of_delegate(module, self.program_data.rule) if self.program_data.rule else {}
        blob = self.program_data.delegate(module.backend_id, module.result, files)
        specs = [fmt.CompileSpec(spec.key, spec.value) for spec in module.compile_specs]
        reference = fmt.BackendDelegateDataReference(fmt.DataLocation.SEGMENT, blob)
        self.plan.delegates.append(fmt.BackendDelegate(module.backend_id, reference, specs))
        arguments = [self.value(Argument(value, "Tensor"), node) for value in inputs]
        self._delegate_inputs.append(len(arguments))
        arguments += [self.result(spec) for spec in specs_of(node)]
        self._instruction(fmt.DelegateCall(len(self.plan.delegates) - 1, arguments), node)
        self._delegate_meta(module)

    def _delegate_meta(self, module: LoweredBackendModule) -> None:
        needs = [
            fmt.MemoryNeed(fmt.MemoryKind[need.kind.upper()], need.space, need.bytes, need.alignment, need.shared_group)
            for need in module.result.memory
        ]
        # Collect the handles of calls only. The debug handle of a placeholder belongs to a node outside of the
        # partition: the node that computes the input.
        graph = module.original_module.graph
        nodes = [node for node in graph.nodes if node.op == "call_function" and "debug_handle" in node.meta]
        handles = [node.meta["debug_handle"] for node in nodes]
        operations = [
            fmt.DelegateOperation(
                *_id_and_name(key),
                handles=list(origin),
                dim_order=list(module.result.value_dim_orders.get(key, ())),
            )
            for key, origin in module.result.debug_handle_map.items()
        ]
        self.meta.delegates.append(
            fmt.DelegateMeta(
                sha256=fmt.blob_digest(module.result.blob),
                compatibility=module.result.compatibility,
                distribution=module.distribution[0],
                distribution_version=module.distribution[1],
                memory=needs,
                handles=handles,
                operations=operations,
                details=_details(module.result),
            )
        )
        self.meta.debug_handles.extend(_debug_handle(node.meta["debug_handle"], node) for node in nodes)

    def _outputs(self, node: Node) -> None:
        kinds = self.program.graph_signature.output_specs
        values = node.args[0]
        assert isinstance(values, (tuple, list))
        for value, spec in zip(values, kinds, strict=True):
            if spec.kind == OutputKind.BUFFER_MUTATION:
                name = next(name for name, buffer in self._state_names.items() if buffer == spec.target)
                self._new_state.append(self._write_back(value, name))
            # as ExecuTorch does, also list an input that the method overwrites among the outputs
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                self.plan.outputs.append(self._write_back(value, str(spec.target)))
            else:
                index = self._of_node(value) if isinstance(value, Node) else self.value(Argument(value, "Scalar"), node)
                self.plan.outputs.append(index)

    def _write_back(self, value: Any, name: str) -> int:
        """Emit a copy of new content into the memory of its mutable buffer or input, unless it was computed there.

        Returns:
            The index of the value that has the new content.
        """
        node = next(node for node in self.program.graph.nodes if node.name == name)
        target = self._values[node]
        # copy nothing if the content is unchanged or was computed in the buffer
        if value is node or value.meta[SPEC].storage is node.meta[SPEC]:
            return self._of_node(value)
        non_blocking = self.literal(fmt.Bool(False))
        self.kernel("aten::copy_", "", [target, self._of_node(value), non_blocking, target], node)
        return target


def _id_and_name(key: int | str) -> tuple[int, str]:
    return (0, key) if isinstance(key, str) else (key, "")


def _details(result: PreprocessResult) -> bytes:
    """Pack the facts about a delegate's blob that only tools read: estimated cycles, and the backend's graph."""
    details = fmt.DelegateDetails(
        cycles=[fmt.CycleEstimate(*_id_and_name(key), cycles) for key, cycles in result.estimated_cycles.items()]
    )
    if result.graph is not None:
        details.nodes = [
            fmt.GraphNode(*_id_and_name(node.operation), node.name, list(node.inputs), list(node.outputs))
            for node in result.graph.nodes
        ]
        details.inputs, details.outputs = list(result.graph.inputs), list(result.graph.outputs)
        details.values = [fmt.GraphValue(number, text) for number, text in result.graph.values.items()]
    return b"" if details == fmt.DelegateDetails() else bytes(fmt.pack(details))


def _debug_handle(handle: int, node: Node) -> fmt.DebugHandle:
    return fmt.DebugHandle(handle, source_line(node), operator_name(node.target), module_path(node))


def _arguments(spec: pytree.TreeSpec) -> str:
    """Return as JSON how tuples, lists and dicts nest in the positional and named arguments.

    If an argument contains a container that JSON cannot represent, each argument is a flat tuple.
    """
    try:
        return pytree.treespec_dumps(spec)
    except NotImplementedError:
        args, kwargs = spec.children()
        flat = [(0,) * part.num_leaves for part in (*args.children(), *kwargs.children())]
        count = len(args.children())
        named = dict(zip(kwargs.context, flat[count:], strict=True))
        return pytree.treespec_dumps(pytree.tree_structure((tuple(flat[:count]), named)))


def _container(spec: pytree.TreeSpec) -> str:
    """Return as JSON how tuples, lists and dicts nest in the outputs.

    Containers without a registered name, such as `torch.return_types.sort`, cannot be written as JSON; all outputs then
    form one flat tuple.
    """
    try:
        return pytree.treespec_dumps(spec)
    except NotImplementedError:
        return pytree.treespec_dumps(pytree.tree_structure((0,) * spec.num_leaves))
