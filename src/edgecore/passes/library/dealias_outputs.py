"""Give each result of a method its own memory."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from edgecore.ir.graph import Editor, edit, fake_mode
from edgecore.ir.program.outputs import is_result

aten = torch.ops.aten


def dealias_outputs(program: ExportedProgram) -> ExportedProgram:
    """Copy results that are an input, a constant or another result: callers provide a separate buffer for each result.

    The new value of a mutable buffer is also copied if it is an input or another buffer. The program writes its buffers
    one after another at its end. Without the copy, a later write could read a buffer that an earlier write has changed.
    """
    with edit(program) as graph_module:
        output = graph_module.graph.output_node()
        editor = Editor(graph_module, output, fake_mode(graph_module))
        results, distinct = [], set()
        specs, buffers = program.graph_signature.output_specs, program.graph_signature.inputs_to_buffers
        assert isinstance(output.args[0], (tuple, list))
        for result, spec in zip(output.args[0], specs, strict=True):
            value = result
            if isinstance(value, Node) and isinstance(value.meta.get("val"), torch.Tensor):
                unchanged = spec.kind == OutputKind.BUFFER_MUTATION and buffers.get(value.name) == spec.target
                if (value.op == "placeholder" and not unchanged) or (is_result(spec) and value in distinct):
                    value = editor.call(aten.clone.default, value, val=value.meta["val"])
                    value.meta["unsupported_reasons"] = [("edgecore", "a copy, as each result has its own memory")]
                if is_result(spec):
                    distinct.add(value)
            results.append(value)
        output.args = (tuple(results),)
    return program
