"""`parse_etrecord`: an ETRecord with its programs loaded by torch."""

from __future__ import annotations

from typing import Any

from edgecore.devtools.file_arguments import record_file
from edgecore.executorch.devtools.etrecord.record import ETRecord
from edgecore.executorch.devtools.numeric_gap import load_graph, loaded_values


def parse_etrecord(etrecord_path: Any) -> ETRecord:
    """Read an ETRecord of edgecore or ExecuTorch, and load its programs.

    Args:
        etrecord_path: Path of the file, or its content.

    Raises:
        FormatError: The file is damaged or of another kind, or torch cannot load a program of it.
        OSError: The file cannot be read.

    Example:
        >>> record = edgecore.devtools.parse_etrecord("model.etrecord")
        >>> print(record.edge_dialect_program)
    """
    file = record_file(etrecord_path)
    programs = {name: load_graph(graph) for name, graph in file.graphs.items()}
    inputs, outputs = loaded_values(file.representative_inputs), loaded_values(file.reference_outputs)
    return ETRecord.restored(programs, file, inputs, outputs)
