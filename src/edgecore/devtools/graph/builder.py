"""Build the graph of a `.pte` from its instructions. Needs neither torch nor the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgecore import format as fmt
from edgecore.devtools.file_arguments import program_file
from edgecore.devtools.graph.model import Edge, Graph, MethodGraph, Node
from edgecore.devtools.profiling import KERNELS, Origin, ProgramSymbols, module, operators, short_operator

if TYPE_CHECKING:
    from edgecore.plugin import BlobGraph


def graph_of(program: Any, *, blobs: bool = False) -> Graph:
    """Return the graph of a file: its instructions, and the operators inside its delegates.

    Args:
        program: Path or content of a `.pte` or `.bpte`, or a parsed `PteFile`.
        blobs: True to add the operations inside delegates, if the file stores them or an installed backend reads them.

    Returns:
        The graph of each method. Edges connect instructions. The operations of an opened blob are connected with each
        other and with the instructions around the delegate.

    Raises:
        FormatError: The file is of another kind, or damaged.

    Example:
        >>> print(edgecore.devtools.graph_of("model.pte").text())
    """
    pte = program_file(program)
    meta = fmt.get_meta(pte)
    symbols = ProgramSymbols(pte)
    plans = pte.program.execution_plan
    methods = [_Builder(pte, plan, symbols, blobs).build() for plan in plans]
    return Graph(meta is not None or not any(plan.delegates for plan in plans), methods)


class _Builder:
    """Builds the graph of one method."""

    def __init__(self, pte: fmt.PteFile, plan: fmt.ExecutionPlan, symbols: ProgramSymbols, blobs: bool) -> None:
        self._opens_blobs = blobs
        self._pte, self._plan, self._symbols = pte, plan, symbols
        meta = fmt.get_meta(pte)
        self._meta = meta.method(plan.name) if meta else None
        self._graph = MethodGraph(plan.name)
        nodes = self._meta.debug_handles if self._meta else ()
        self._origins = {
            node.handle: Origin(node.handle, node.operator_name, node.module_path, node.source) for node in nodes
        }
        self._makers: dict[int, str] = {}
        self._reads: dict[int, list[int]] = {}
        self._writes: list[tuple[int, int, int, str]] = []
        """Writes to arenas, oldest first: (arena, first byte, end, id of the node that writes)."""

    def build(self) -> MethodGraph:
        name, plan = self._plan.name, self._plan
        for number, index in enumerate(plan.inputs):
            self._add(Node(f"{name}/input {number}", "input", self._argument("inputs", number)), writes=[index])
        calls = [instruction.instr_args for instruction in plan.chains[0].instructions] if plan.chains else []
        self._reads = self._readers(calls)
        for step, call in enumerate(calls):
            self._instruction(f"{name}/{step}", step, call)
        for number, index in enumerate(plan.outputs):
            self._add(Node(f"{name}/output {number}", "output", self._argument("outputs", number)), reads=[index])
        return self._graph

    def _readers(self, calls: Sequence[Any]) -> dict[int, list[int]]:
        """Map each value to the instructions that may read it; the method's outputs are read at the very end."""
        readers: dict[int, list[int]] = {index: [len(calls)] for index in self._plan.outputs}
        for step, call in enumerate(calls):
            args = call.args if isinstance(call, (fmt.KernelCall, fmt.DelegateCall)) else ()
            extra = [call.move_from] if isinstance(call, fmt.MoveCall) else []
            extra += [call.cond_value_index] if isinstance(call, fmt.JumpFalseCall) else []
            for index in (*self._tensors(args), *extra):
                readers.setdefault(index, []).append(step)
        return readers

    def _argument(self, kind: str, number: int) -> str:
        arguments = getattr(self._meta, kind, [])
        return (arguments[number].name if number < len(arguments) else "") or f"{kind[:-1]}_{number}"

    def _instruction(self, name: str, step: int, call: Any) -> None:
        if isinstance(call, fmt.KernelCall):
            self._kernel(name, step, call)
        elif isinstance(call, fmt.DelegateCall):
            self._delegate(name, step, call)
        elif isinstance(call, fmt.MoveCall):
            self._add(Node(name, "move", "move"), [call.move_from], [call.move_to])
        elif isinstance(call, fmt.JumpFalseCall):
            text = f"to {call.destination_instruction} if false"
            self._add(Node(name, "jump", text), [call.cond_value_index])

    def _kernel(self, name: str, step: int, call: fmt.KernelCall) -> None:
        known = 0 <= call.op_index < len(self._plan.operators)
        key = self._plan.operators[call.op_index].key if known else f"operator {call.op_index}"
        origins = self._symbols.origins(self._plan.name, step)
        node = Node(name, "kernel", operators(origins) if origins else kernel_name(key), key, backend=KERNELS)
        if origins:
            node.operator, node.source = origins[0].operator, origins[0].source
            node.module, node.handles = _module(origins), [origin.handle for origin in origins]
        written = self._tensors(call.args[-1:])
        read = [index for index in self._tensors(call.args[:-1]) if index not in written or self._is_written(index)]
        texts = (self._constant(index) for index in call.args[:-1] if index not in self._makers)
        node.arguments = [text for text in texts if text is not None]
        node.bytes = sum(self._weight(index) for index in set(read))
        self._add(node, read, written)

    def _delegate(self, name: str, step: int, call: fmt.DelegateCall) -> None:
        node = Node(name, "delegate", f"delegate {call.delegate_index}")
        handles: Sequence[int] = ()
        if 0 <= call.delegate_index < len(self._plan.delegates):
            delegate = self._plan.delegates[call.delegate_index]
            node.name = node.backend = delegate.id
            node.bytes = memoryview(self._pte.delegate_blob(delegate)).nbytes
            if self._meta and call.delegate_index < len(self._meta.delegates):
                handles = self._meta.delegates[call.delegate_index].handles
        # Leave out getitem: only delegates list it, but the operators of a file must be the same for each backend.
        origins = (self._origins[handle] for handle in handles if handle in self._origins)
        computed = [origin for origin in origins if origin.operator != "getitem"]
        node.handles = [origin.handle for origin in computed]
        inputs = self._input_count(step, call.args)
        opened = self._opened(call) if self._opens_blobs else None
        if opened is not None:
            self._operations(node, opened, call.args[:inputs], call.args[inputs:], call.delegate_index)
            return
        self._add(node, call.args[:inputs], call.args[inputs:])
        for origin in computed:
            inner = Node(f"{name}/{origin.handle}", "operator", short_operator(origin.operator), origin.operator)
            inner.module, inner.source, inner.handles = origin.module, origin.source, [origin.handle]
            inner.backend, inner.parent = node.backend, name
            self._graph.nodes.append(inner)

    def _opened(self, call: fmt.DelegateCall) -> BlobGraph | None:
        """Return the graph of a delegate's blob; None if neither the file nor an installed backend has it."""
        from edgecore.plugin import BlobGraphReader
        from edgecore.plugin.registry import find, load_compiler

        if not 0 <= call.delegate_index < len(self._plan.delegates):
            return None
        delegate = self._plan.delegates[call.delegate_index]
        metas = self._meta.delegates if self._meta else []
        if call.delegate_index < len(metas) and (stored := stored_graph(metas[call.delegate_index])):
            return stored
        try:
            compiler = load_compiler(find(delegate.id))
            if isinstance(compiler, BlobGraphReader):
                return compiler.blob_graph(bytes(self._pte.delegate_blob(delegate)), self._pte.named_data)
        except Exception:  # return no graph if the backend or the blob is unusable
            pass
        return None

    def _operations(
        self, call: Node, graph: BlobGraph, reads: Sequence[int], writes: Sequence[int], delegate: int
    ) -> None:
        """Add the operations inside a delegate's blob, and connect them with the arguments of the delegate call."""
        metas = self._meta.delegates if self._meta else []
        operations = metas[delegate].operations if delegate < len(metas) else []
        handles = {operation.name or operation.id: operation.handles for operation in operations}
        makers: dict[int, list[str]] = {}
        for number, index in zip(graph.inputs, reads, strict=False):
            makers[number] = [self._makers[index]] if index in self._makers else self._writers_of(index)
        self._graph.nodes.append(call)
        for inner in graph.nodes:
            origins = [self._origins[handle] for handle in handles.get(inner.operation, ()) if handle in self._origins]
            name = operators(origins) if origins else inner.name
            node = Node(f"{call.id}/operation {inner.operation}", "operation", name, inner.name)
            node.backend, node.parent = call.backend, call.id
            node.outputs = [graph.values.get(number, "") for number in inner.outputs]
            if origins:
                node.operator, node.source = origins[0].operator, origins[0].source
                node.module, node.handles = _module(origins), [origin.handle for origin in origins]
            self._graph.nodes.append(node)
            sources = dict.fromkeys(maker for number in inner.inputs for maker in makers.get(number, ()))
            self._graph.edges += [Edge(source, node.id, -1) for source in sources]
            makers |= {number: [node.id] for number in inner.outputs}
        for number, index in zip(graph.outputs, writes, strict=False):
            call.outputs.append(self._text(index))
            self._made(index, *makers.get(number, [call.id])[:1])

    def _input_count(self, step: int, args: Sequence[int]) -> int:
        """Infer how many arguments of a delegate call are inputs; in `args` the inputs precede the outputs.

        The file does not record this number. The last argument that an earlier instruction wrote, and all arguments
        before it, are inputs. The arguments after it are outputs, or inputs that are views of memory that was written
        earlier; the outputs begin at the first argument that a later instruction reads.
        """
        last = max((number for number, index in enumerate(args) if self._is_written(index)), default=-1)
        while last + 1 < len(args) and not any(first > step for first in self._reads.get(args[last + 1], ())):
            last += 1
        return last + 1

    def _is_written(self, index: int) -> bool:
        return index in self._makers or self._has_data(index)

    def _add(self, node: Node, reads: Sequence[int] = (), writes: Sequence[int] = ()) -> None:
        self._graph.nodes.append(node)
        for index in dict.fromkeys(reads):
            makers = [self._makers[index]] if index in self._makers else self._writers_of(index)
            self._graph.edges += [self._edge(maker, node.id, index) for maker in makers]
        for index in dict.fromkeys(writes):
            node.outputs.append(self._text(index))
            self._made(index, node.id)

    def _made(self, index: int, node: str) -> None:
        """Record which node computes a value, and which bytes of the arena this node writes."""
        self._makers[index] = node
        place = self._place(index)
        if place:
            self._writes.append((*place, node))

    def _writers_of(self, index: int) -> list[str]:
        """Return the nodes that wrote the bytes of a value that no instruction computes, such as a view."""
        place = self._place(index)
        if place is None or self._has_data(index):
            return []
        arena, writers, open_parts = place[0], [], [(place[1], place[2])]
        for memory, begin, end, node in reversed(self._writes):
            if memory != arena or not any(begin < stop and start < end for start, stop in open_parts):
                continue
            writers.append(node)
            cut = [part for start, stop in open_parts for part in ((start, min(stop, begin)), (max(start, end), stop))]
            open_parts = [(start, stop) for start, stop in cut if start < stop]
        return list(dict.fromkeys(reversed(writers)))

    def _place(self, index: int) -> tuple[int, int, int] | None:
        """Return (arena, first byte, end) of a value; None if it is not in an arena."""
        value = self._value(index)
        if not isinstance(value, fmt.Tensor) or value.allocation_info is None:
            return None
        offset = value.allocation_info.offset
        return value.allocation_info.memory_id, offset, offset + value.nbytes

    def _text(self, index: int) -> str:
        value = self._value(index)
        if isinstance(value, fmt.Tensor):
            return f"{value.scalar_type.dtype_name} {list(value.sizes)}"
        return type(value).__name__.lower()

    def _edge(self, source: str, target: str, index: int) -> Edge:
        tensor = self._value(index)
        if not isinstance(tensor, fmt.Tensor):
            return Edge(source, target, index, type(tensor).__name__.lower())
        return Edge(source, target, index, tensor.scalar_type.dtype_name, list(tensor.sizes), tensor.nbytes)

    def _value(self, index: int) -> Any:
        return self._plan.values[index].val if 0 <= index < len(self._plan.values) else None

    def _tensors(self, indices: Sequence[int]) -> list[int]:
        """Return the indices of the argument values, with lists of tensors replaced by their items."""
        flat = []
        for index in indices:
            value = self._value(index)
            if isinstance(value, (fmt.TensorList, fmt.OptionalTensorList)):
                flat += [item for item in value.items if item >= 0]
            else:
                flat.append(index)
        return flat

    def _has_data(self, index: int) -> bool:
        value = self._value(index)
        return not isinstance(value, fmt.Tensor) or bool(value.data_buffer_idx or value.extra_tensor_info)

    def _constant(self, index: int) -> str | None:
        """Format a non-tensor argument; None for a tensor or a list of tensors."""
        match self._value(index):
            case fmt.Int(number) | fmt.Double(number) | fmt.Bool(number):
                return str(number)
            case fmt.String(text):
                return repr(text)
            # the items are indices of Int values; show None for a value that is computed at run time
            case fmt.IntList(items):
                return str([getattr(self._value(item), "int_val", None) for item in items])
            case fmt.DoubleList(items) | fmt.BoolList(items):
                return str(items)
            case fmt.Null():
                return "None"
        return None

    def _weight(self, index: int) -> int:
        value = self._value(index)
        constant = isinstance(value, fmt.Tensor) and self._has_data(index) and value.allocation_info is None
        return value.nbytes if constant else 0


def stored_graph(delegate: fmt.DelegateMeta) -> BlobGraph | None:
    """Return the graph of a blob from the file's metadata; None if the metadata has none."""
    from edgecore.plugin import BlobGraph, BlobNode

    details = delegate.read_details()
    if not details.nodes:
        return None
    rows = details.nodes
    nodes = (BlobNode(row.name or row.id, row.kind, tuple(row.inputs), tuple(row.outputs)) for row in rows)
    texts = {value.number: value.text for value in details.values}
    return BlobGraph(tuple(nodes), tuple(details.inputs), tuple(details.outputs), texts)


def kernel_name(key: str) -> str:
    """Return the short name of a kernel: "copy_" for "aten::copy_.out"."""
    return key.rpartition("::")[2].partition(".")[0]


def _module(origins: Sequence[Origin]) -> str:
    """Return the path of the innermost module that contains the nodes; empty for the model itself."""
    return module(origins) if any(origin.module for origin in origins) else ""
