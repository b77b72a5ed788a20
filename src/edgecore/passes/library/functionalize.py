"""Replace in-place operators by functional ones."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.ir.graph import (
    REGIONS,
    Editor,
    all_calls,
    calls,
    describe,
    edit,
    fake_mode,
    replace,
    same_layout,
    same_sizes,
)
from edgecore.ir.op_args import argument
from edgecore.ir.program.copying import copy_program
from edgecore.ir.torch_compat import AUTOCAST_CALLS, OpOverload
from edgecore.passes.in_place import functional_form, is_mutable, writes_statistics, written_by
from edgecore.passes.library.inline_composites import inline_composites
from edgecore.passes.library.lift_body_constants import lift_body_constants
from edgecore.passes.library.rebase_strided import rebase_strided
from edgecore.passes.written_views import UnknownView, aliased, put_back, shared_source

aten = torch.ops.aten

_DROPOUTS = (aten.dropout.default, aten.feature_dropout.default, aten.alpha_dropout.default)

_MUTATIONS = {InputKind.BUFFER: OutputKind.BUFFER_MUTATION, InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION}
"""Kind of an input that a program may write -> the kind of the result that is its new content."""


def functionalize(program: ExportedProgram, *, statistics: bool = True) -> ExportedProgram:
    """Return an equivalent program without in-place operators. `program` may be edited.

    An in-place operator becomes its functional overload, and later users of the tensor read the result. Other tensors
    that share its memory are computed again from the new content when they are read. Written inputs and buffers become
    results of the program. Some programs are left to torch's own functionalization, which traces the program again:
    those that write through rare views or inside branches and loop bodies, and those with `torch.autocast()` regions.

    Args:
        program: The program.
        statistics: Whether updates of running statistics become functional, too. False keeps batch norms in training
            as operators that write their statistics in place; quantization-aware training supports only this form.

    Raises:
        CompileError: `statistics` is False, and the program needs torch's functionalization, which would replace the
            batch norms.
    """
    if any(spec.kind == InputKind.TOKEN for spec in program.graph_signature.input_specs):
        program = _without_tokens(program)
    lift_body_constants(program)  # lift body constants here, too: recipes pass programs on which no pass has run
    # call `_assignments` first: it reads the metadata of nodes that `_drop_dropouts` removes
    assignments = _assignments(program)
    _drop_dropouts(program)
    nodes = all_calls(program.graph_module)
    norms = [node for node in nodes if writes_statistics(node)]
    writing = [node for node in nodes if is_mutable(node)] + (norms if statistics else [])
    regions = any(node.target in (*REGIONS, *AUTOCAST_CALLS) for node in nodes)
    if not writing and not (regions and (statistics or not norms)):
        rebase_strided(program)
        return program
    inline_composites(program)
    rebase_strided(program)
    if assignments:
        _copy_before(program, assignments)
    if not regions and all(node.graph is program.graph for node in writing):
        try:
            return _Functionalization(copy_program(program), statistics).run()
        except UnknownView:
            pass
    if norms and not statistics:
        raise CompileError(
            f"{describe(writing[0])} writes in a branch, a region or through a view in a way that has no form for the "
            "training of batch norms; write this part of the model without in-place operators"
        )
    return copy_program(_without_tokens(program.run_decompositions({})))


def _without_tokens(program: ExportedProgram) -> ExportedProgram:
    """Remove the tokens by which `run_decompositions` orders operators with effects; the order of nodes suffices."""
    from edgecore.ir.torch_compat import remove_effect_tokens

    return remove_effect_tokens(program)


def _assignments(program: ExportedProgram) -> list[Node]:
    """Return the copies that `torch.export` adds at the end of a graph for assignments such as `self.state = new`."""
    assignments: list[Node] = []
    for node in reversed(calls(program.graph_module)):
        is_copy = node.target is aten.copy_.default and node.name.startswith("copy__default")
        source = node.args[1] if is_copy else None
        name = source.meta.get("torch_fn") if isinstance(source, Node) else None
        # torch.export inserts a copy for an assignment, and the copy has the `torch_fn` of its source
        if name is None or name != node.meta.get("torch_fn"):
            break
        assignments.insert(0, node)
    return assignments


def _copy_before(program: ExportedProgram, assignments: list[Node]) -> None:
    """Copy values that share memory with an assigned buffer, if the program returns them or an assignment reads them.

    In Python, an assignment leaves views of the old tensor unchanged; but `torch.export` copies the new content into
    the old tensor.
    """
    assigned = {node.args[0] for node in assignments}
    shares: dict[Node, bool] = {}
    for node in program.graph.nodes:
        source = aliased(node)
        shares[node] = node in assigned or (source is not None and any(shares[read] for read in node.all_input_nodes))
    with edit(program) as graph_module:
        editor = Editor(graph_module, assignments[0], fake_mode(graph_module))
        for user in (*assignments, program.graph.output_node()):
            for read in user.all_input_nodes:
                if shares[read] and not (user in assignments and read is user.args[0]):
                    user.replace_input_with(read, editor.call(aten.clone.default, read))


def _drop_dropouts(program: ExportedProgram) -> None:
    """Remove dropouts in eval mode or with the probability 0, which return their input.

    torch's functionalization would turn them into copies.
    """
    with edit(program) as graph_module:
        for node in all_calls(graph_module, *_DROPOUTS):
            if not argument(node, "train") or argument(node, "p") == 0:
                source = node.args[0]
                assert isinstance(source, Node)
                replace(node, source)


class _Functionalization:
    """Makes the graph of a program functional in a single run over its nodes.

    Tensors that share memory have a common base; a view also has a source, the node that it views. Each write
    increments the version of the base. The content of a tensor at a version is a node, which is made when it is first
    read: the view operator is applied again to the content of the view's source.
    """

    def __init__(self, program: ExportedProgram, statistics: bool) -> None:
        self.program = program
        self.statistics = statistics
        self.graph_module = program.graph_module
        self.mode = fake_mode(self.graph_module)
        self.tensor: dict[Node, Node] = {}  # the result of an in-place call -> the node of the tensor that it returns
        self.source: dict[Node, Node] = {}  # a view -> the node that it views
        self.base: dict[Node, Node] = {}  # a view -> the base
        self.version: dict[Node, int] = {}  # a written base -> the number of writes
        # base or view -> (version of the base, content at that version)
        self.content: dict[Node, tuple[int, Node]] = {}

    def run(self) -> ExportedProgram:
        """Make the program functional and return it.

        Raises:
            UnknownView: The program writes in a way that this class cannot make functional.
        """
        with edit(self.program):
            for node in list(self.program.graph.nodes):
                if node.op == "call_function":
                    self._visit(node)
            output = self.program.graph.output_node()
            self._read_contents(output)
            self._return_written(output)
            for node in reversed(list(self.tensor)):
                self.program.graph.erase_node(node)
        return self.program

    def _visit(self, node: Node) -> None:
        """Let a call read current contents; record the write of an in-place call, and the source of a view."""
        if is_mutable(node):
            assert isinstance(node.target, OpOverload)
            if functional_form(node.target) is None:
                raise UnknownView(str(node.target))
            (written,) = written_by(node)
            self.tensor[node] = tensor = self.tensor.get(written, written)
            self._read_contents(node)
            if node.target is not aten.detach_.default:
                self._write(Editor(self.graph_module, node, self.mode), tensor, self._result(node))
        elif self.statistics and writes_statistics(node):
            statistics = [argument(node, name) for name in ("running_mean", "running_var")]
            self._read_contents(node)
            self._update_statistics(node, [self.tensor.get(tensor, tensor) for tensor in statistics])
        else:
            source = shared_source(node, self.mode)
            if source is not None:
                self.source[node] = source = self.tensor.get(source, source)
                self.base[node] = base = self.base.get(source, source)
                self.content[node] = (self.version.get(base, 0), node)
            self._read_contents(node)

    def _read_contents(self, node: Node) -> None:
        """If in-place calls have written an input, let the node read the content after the last write instead."""
        editor = Editor(self.graph_module, node, self.mode)
        for read in node.all_input_nodes:
            content = self._content(editor, self.tensor.get(read, read))
            if content is not read:
                node.replace_input_with(read, content)

    def _content(self, editor: Editor, tensor: Node) -> Node:
        """Return the node with the current content of a tensor."""
        version = self.version.get(self.base.get(tensor, tensor), 0)
        known, content = self.content.get(tensor, (0, tensor))
        if known != version:
            source = self._content(editor, self.source[tensor])
            # Use `reshape`, because after a write the strides may be ones that `view` does not accept.
            target = aten.reshape.default if tensor.target is aten.view.default else tensor.target
            assert callable(target)
            content = editor.call(target, source, *tensor.args[1:], val=tensor.meta["val"], **tensor.kwargs)
            self.content[tensor] = (version, content)
        return content

    def _result(self, node: Node) -> Node:
        """Insert the functional form of an in-place call, whose result has the dtype of the written tensor."""
        editor = Editor(self.graph_module, node, self.mode)
        written = node.args[0]
        assert isinstance(written, Node) and isinstance(node.target, OpOverload)
        functional = functional_form(node.target)
        if functional is None or torch.Tag.inplace_view in node.target.tags:
            raise UnknownView(str(node.target))
        if node.target in (aten.copy_.default, aten.fill_.Tensor):
            return _copied(editor, written, node.args[1])
        args = node.args
        if node.target is aten.bernoulli_.float:  # pass `p`, for which the functional overload has no default
            args = (written, argument(node, "p"))
        result = editor.call(functional, *args, **node.kwargs)
        return _converted(editor, result, written.meta["val"].dtype)

    def _update_statistics(self, node: Node, statistics: list[Node]) -> None:
        """Replace a batch norm in training by the functional operator, and write the statistics that it returns."""
        if node.target is not aten.batch_norm.default:
            raise UnknownView(str(node.target))
        editor = Editor(self.graph_module, node, self.mode)
        names = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")
        arguments = [argument(node, name) for name in names]
        norm = editor.call(aten._native_batch_norm_legit_functional.default, *arguments)
        normed, mean, var = (editor.call(operator.getitem, norm, index) for index in (0, 3, 4))
        for tensor, new in zip(statistics, (mean, var), strict=True):
            self._write(editor, tensor, new)
        replace(node, normed)

    def _write(self, editor: Editor, tensor: Node, new: Node) -> None:
        """Record `new` as the new content of `tensor`, and compute the new contents of the tensors `tensor` views."""
        contents = [(tensor, new)]
        while tensor in self.source:
            view, tensor = tensor, self.source[tensor]
            if view.target is operator.getitem:  # a list item: continue with the tensor that its list views
                tensor = self.source[tensor]
            new = put_back(editor, view, self._content(editor, tensor), new)
            contents.append((tensor, new))
        self.version[tensor] = version = self.version.get(tensor, 0) + 1
        contents[-1] = (tensor, _relaid(editor, new, tensor.meta["val"]))
        for written, content in contents:
            # A view with other strides is recomputed when it is read, so that values computed from it keep their
            # strides.
            if same_layout(written.meta["val"], content.meta["val"]):
                self.content[written] = (version, content)

    def _return_written(self, output: Node) -> None:
        """Return the new contents of inputs and buffers before the results of the model."""
        signature = self.program.graph_signature
        placeholders = {node.name: node for node in self.program.graph.nodes if node.op == "placeholder"}
        results, specs = [], []
        for spec in signature.input_specs:
            node = placeholders.get(getattr(spec.arg, "name", ""))
            if node not in self.version:
                continue
            kind = _MUTATIONS.get(spec.kind)
            name = spec.target if spec.kind == InputKind.BUFFER else node.name
            if kind is None or any(spec.target == name for spec in signature.output_specs):
                raise UnknownView(f"a write to {node.name}")
            results.append(self.content[node][1])
            specs.append(OutputSpec(kind, TensorArgument(results[-1].name), name))
        returned = output.args[0]
        assert isinstance(returned, (tuple, list))
        output.args = ((*results, *returned),)
        signature.output_specs[:0] = specs


def _copied(editor: Editor, written: Node, source: Any) -> Node:
    """Convert `source` to the dtype and shape of the tensor to which it is copied."""
    val = written.meta["val"]
    if not isinstance(source, Node):  # `torch.export` may pass a number in place of a tensor
        return editor.call(aten.full_like.default, written, source)
    source = _converted(editor, source, val.dtype)
    same = same_sizes(source.meta["val"].shape, val.shape)
    return source if same else editor.call(aten.expand_as.default, source, written)


def _converted(editor: Editor, value: Node, dtype: torch.dtype) -> Node:
    return value if value.meta["val"].dtype == dtype else editor.call(aten.to.dtype, value, dtype)


def _relaid(editor: Editor, content: Node, like: torch.Tensor) -> Node:
    """Copy `content` to the strides of the tensor `like`, because the tensor's readers were exported for these strides.

    Raises:
        UnknownView: No memory format has these strides.
    """
    if same_layout(content.meta["val"], like):
        return content
    for memory_format in (torch.contiguous_format, torch.channels_last):
        if memory_format == torch.contiguous_format or like.dim() == 4:
            copy = editor.call(aten.clone.default, content, memory_format=memory_format)
            if same_layout(copy.meta["val"], like):
                return copy
    raise UnknownView(f"a write to a tensor of the strides {like.stride()}")
