"""Make a `.pte` file in memory from edge programs and their memory plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version

from torch.export import ExportedProgram

from edgecore import format as fmt
from edgecore.emit.constant_methods import constant_plan
from edgecore.emit.emitter import Emitter
from edgecore.emit.external import ExternalConstants, Rule, external_rule
from edgecore.emit.program_data import ProgramData
from edgecore.memory import MemoryPlan


def emit(
    methods: Mapping[str, tuple[ExportedProgram, MemoryPlan]],
    *,
    runtime: str,
    constant_methods: Mapping[str, object] | None = None,
    rule: Rule | None = None,
    shared_state: Sequence[str] = (),
    alignments: fmt.Alignments = fmt.DEFAULT_ALIGNMENTS,
) -> tuple[fmt.PteFile, dict[str, fmt.PtdFile]]:
    """Build the `.pte` file that holds these methods, and its `.ptd` files.

    Args:
        methods: Method name -> (edge program, its memory plan).
        runtime: The target runtime, which is recorded in the file.
        constant_methods: Name -> value, for methods that take no input and return the value.
        rule: Chooses the constants that are stored in `.ptd` files; see `external_rule`.
        shared_state: Qualified names of the mutable buffers that all methods share.
        alignments: Alignments of segments and constants in the files.

    Returns:
        The `.pte` file, and the `.ptd` files by name.

    Raises:
        CompileError: The format cannot represent an operator, a value or an input of a method.
    """
    program_data, plans, metas = ProgramData(rule, alignments), [], []
    for name, (program, plan) in methods.items():
        execution_plan, meta = Emitter(name, program, plan, program_data).emit()
        plans.append(execution_plan)
        metas.append(meta)
    plans.extend(constant_plan(name, value, program_data) for name, value in (constant_methods or {}).items())
    pte = fmt.PteFile(
        fmt.Program(execution_plan=plans),
        constants=program_data.constants,
        mutable=program_data.mutable,
        delegate_blobs=program_data.blobs,
        named_data=program_data.named_data,
        alignments=alignments,
    )
    fmt.set_meta(
        pte,
        fmt.Meta(
            runtime,
            "edgecore",
            version("edgecore"),
            metas,
            list(shared_state),
            fmt.segment_digest(program_data.constants, alignments.constant),
            fmt.segment_digest(program_data.mutable, alignments.constant),
            program_data.digests(),
        ),
    )
    return pte, program_data.external


__all__ = ["Emitter", "ExternalConstants", "emit", "external_rule"]
