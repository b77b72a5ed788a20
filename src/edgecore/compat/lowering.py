"""`to_edge` and `to_edge_transform_and_lower` with ExecuTorch's order of arguments; edgecore's take them by name only."""

from __future__ import annotations

from collections.abc import Mapping

from edgecore import pipeline
from edgecore.pipeline import EdgeCompileConfig, EdgeProgramManager
from edgecore.pipeline.lower import PartitionerSpec, Programs, TransformPasses


def to_edge(
    programs: Programs,
    constant_methods: Mapping[str, object] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """Call `edgecore.to_edge`."""
    return pipeline.to_edge(
        programs,
        constant_methods=constant_methods,
        compile_config=compile_config,
        generate_etrecord=generate_etrecord,
    )


def to_edge_transform_and_lower(
    programs: Programs,
    transform_passes: TransformPasses | None = None,
    partitioner: PartitionerSpec = None,
    constant_methods: Mapping[str, object] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """Call `edgecore.to_edge_transform_and_lower`."""
    return pipeline.to_edge_transform_and_lower(
        programs,
        transform_passes=() if transform_passes is None else transform_passes,
        partitioner=partitioner,
        constant_methods=constant_methods,
        compile_config=compile_config,
        generate_etrecord=generate_etrecord,
    )
