"""The outputs of an exported program: results, and new contents of the buffers and inputs that it writes.

The same value may be the new content of two buffers or inputs.
"""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, OutputSpec

_GRADIENTS = (OutputKind.GRADIENT_TO_PARAMETER, OutputKind.GRADIENT_TO_USER_INPUT)
_CONTENTS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)


def is_result(spec: OutputSpec) -> bool:
    """Return True for an output that a call returns: a value of the model, a loss, a gradient or a token.

    The other outputs are new contents of tensors that the program writes.
    """
    return spec.kind not in _CONTENTS


def has_gradients(program: ExportedProgram) -> bool:
    """Return True for a program with a loss and gradients, such as `_export_forward_backward` makes."""
    return any(spec.kind in _GRADIENTS for spec in program.graph_signature.output_specs)


def written_buffers(program: ExportedProgram) -> set[str]:
    """Return the qualified names of the buffers that a program writes."""
    return set(_targets(program, OutputKind.BUFFER_MUTATION))


def written_placeholders(program: ExportedProgram) -> dict[str, str]:
    """Return placeholder -> qualified name for the buffers that a program writes."""
    written = written_buffers(program)
    return {name: buffer for name, buffer in program.graph_signature.inputs_to_buffers.items() if buffer in written}


def written_inputs(program: ExportedProgram) -> list[str]:
    """Return the names of the placeholders of inputs that a program writes, in the order of its outputs."""
    return _targets(program, OutputKind.USER_INPUT_MUTATION)


def _targets(program: ExportedProgram, kind: OutputKind) -> list[str]:
    # Read the output specs: torch's `buffers_to_mutate` names one buffer for each value, but a value may update two.
    return [str(spec.target) for spec in program.graph_signature.output_specs if spec.kind == kind]
