"""Convert the dim order of images to NHWC or NCHW."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.ir.dialect.dim_orders import dim_order
from edgecore.ir.graph import Editor, edit, fake_mode, refresh_vals
from edgecore.passes.pass_list import Pass

aten = torch.ops.aten


def convert_dim_order(memory_format: torch.memory_format) -> Pass:
    """Make a pass that computes four-dimensional values in the given dim order.

    Inputs of the program are converted at its beginning, and results are converted back to their own dim order at its
    end. In between, each operator returns the dim order that PyTorch's own operator would return.

    Args:
        memory_format: `torch.channels_last` or `torch.contiguous_format`.

    Raises:
        CompileError: `memory_format` is neither of the two.
    """
    if memory_format not in (torch.channels_last, torch.contiguous_format):
        raise CompileError(f"convert_dim_order({memory_format}): use channels_last or contiguous_format")

    def convert(program: ExportedProgram) -> ExportedProgram:
        user_inputs = {
            spec.arg.name for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT
        }
        with edit(program) as graph_module:
            mode, output = fake_mode(graph_module), graph_module.graph.output_node()
            original = {node: dim_order(node.meta["val"]) for node in output.all_input_nodes if _is_tensor(node)}
            first = next(node for node in graph_module.graph.nodes if node.op != "placeholder")
            editor, converted = Editor(graph_module, first, mode), set()
            for node in list(graph_module.graph.nodes):
                if node.name in user_inputs and node.op == "placeholder" and _is_image(node):
                    if node.meta["val"].is_contiguous(memory_format=memory_format):
                        continue
                    readers = [user for user in node.users if user.op != "output"]
                    copy = editor.call(aten.clone.default, node, memory_format=memory_format)
                    for user in readers:
                        user.replace_input_with(node, copy)
                    converted.add(copy)
            refresh_vals(graph_module, converted, mode)
            editor = Editor(graph_module, output, mode)
            for node, order in original.items():
                if dim_order(node.meta["val"]) != order:
                    back = torch.contiguous_format if order == tuple(range(len(order or ()))) else torch.channels_last
                    output.replace_input_with(node, editor.call(aten.clone.default, node, memory_format=back))
        return program

    return convert


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _is_image(node: Node) -> bool:
    return _is_tensor(node) and node.meta["val"].dim() == 4
