"""The `Inspector` of ExecuTorch's developer tools, based on edgecore's readers of profiles."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import IO, Any

from edgecore.devtools.file_arguments import dump_file, program_file, record_file
from edgecore.devtools.printable import printable
from edgecore.devtools.profiling import (
    DELEGATE,
    FRAMEWORK,
    REPEATED,
    ProgramSymbols,
    RecordSymbols,
    Symbols,
    Values,
    method_of,
    operation_number,
)
from edgecore.errors import FormatError
from edgecore.executorch.devtools.events import (
    Converter,
    Event,
    EventBlock,
    MetadataParser,
    TimeScale,
    as_frame,
    event_blocks,
)
from edgecore.format import PteFile
from edgecore.format.etrecord import EDGE, EtRecordFile, Graph, GraphNode, graph_nodes
from edgecore.stability import warn_no_effect

_EDGE_NAMES = ("edge_dialect_graph_module", EDGE)
_NOT_PRINTED = ("raw", "delegate_debug_identifier", "stack_traces", "module_hierarchy", "debug_data")


class Inspector:
    """The events of an ETDump, with the operators that they stand for.

    Attributes:
        event_blocks: The runs; runs with equal events are one block.

    Example:
        >>> inspector = edgecore.devtools.Inspector(etdump_path="runs.etdp", program="model.pte")
        >>> inspector.print_data_tabular()
    """

    def __init__(
        self,
        etdump_path: str | None = None,
        etdump_data: bytes | None = None,
        etrecord: Any = None,
        source_time_scale: TimeScale = TimeScale.NS,
        target_time_scale: TimeScale = TimeScale.MS,
        debug_buffer_path: str | None = None,
        delegate_metadata_parser: MetadataParser | None = None,
        delegate_time_scale_converter: Converter | None = None,
        enable_module_hierarchy: bool = False,
        reference_graph_name: str = "edge_dialect_graph_module",
        *,
        program: Any = None,
        method: str | None = None,
        buffer_path: str | None = None,
    ) -> None:
        """Read an ETDump.

        Args:
            etdump_path: Path of the ETDump, or of firmware's trace records, which need `program`.
            etdump_data: The ETDump itself, instead of its path.
            etrecord: ETRecord that the compiler made: its path, its content, or the result of `get_etrecord`.
            source_time_scale: Unit of the times in the file.
            target_time_scale: Unit of the results; `CYCLES` if, and only if, the source has cycles.
            debug_buffer_path: File with the values of tensors, if they were recorded. Reading it needs torch.
            delegate_metadata_parser: Converts the metadata that a delegate added to an event, a list with the bytes of
                each run, to strings or columns.
            delegate_time_scale_converter: Converts a time that a delegate measured; its arguments are the event's name
                and the time. By default such times are converted like all others.
            enable_module_hierarchy: Without effect. Each event always has the modules of its operators.
            reference_graph_name: Name of the graph in the ETRecord from which operators are read.
            program: The `.pte` that ran: path or bytes. Its metadata serve in place of an ETRecord; if both are passed,
                only the ETRecord is used.
            method: Method whose graphs and values are read from the ETRecord; by default "forward", or the first. A run
                belongs to the method that its block names, or else to a method whose instructions fit.
            buffer_path: Another name of `debug_buffer_path`.

        Raises:
            ValueError: Neither or both of path and data were passed, or the ETRecord lacks the method or the graph.
            RuntimeError: One unit is cycles and the other is not.
            FormatError: A file is damaged, or of another kind.
        """
        if enable_module_hierarchy:
            reason = "each event always has the modules of its operators"
            warn_no_effect("Inspector(enable_module_hierarchy=True)", reason)
        if (source_time_scale == TimeScale.CYCLES) != (target_time_scale == TimeScale.CYCLES):
            raise RuntimeError("if one of source_time_scale and target_time_scale is CYCLES, both must be")
        if (etdump_path is None) == (etdump_data is None):
            raise ValueError("exactly one of etdump_path and etdump_data must be given")
        etdump = dump_file(etdump_path if etdump_path is not None else etdump_data or b"", program)
        buffer = debug_buffer_path or buffer_path
        values = Values(Path(buffer).read_bytes() if buffer else None)
        self._record = None if etrecord is None else record_file(etrecord)
        self._method = _chosen_method(self._record, method)
        self.event_blocks: list[EventBlock] = event_blocks(
            etdump,
            source_time_scale,
            target_time_scale,
            values,
            delegate_metadata_parser,
            delegate_time_scale_converter,
        )
        self._methods = [""] * len(self.event_blocks)
        if self._record is not None:
            self._use_record(self._record, reference_graph_name)
        elif program is not None:
            self._use_program(program_file(program))

    def _methods_of_blocks(self, symbols: Symbols) -> list[str]:
        """Return the method of each block; an empty string if it is unknown."""
        sources = ([event._source for event in block.events if event._source] for block in self.event_blocks)
        return [
            method_of(symbols, block.name, events) for block, events in zip(self.event_blocks, sources, strict=True)
        ]

    def _use_record(self, record: EtRecordFile, graph_name: str) -> None:
        self._methods = [name or self._method for name in self._methods_of_blocks(RecordSymbols(record))]
        if graph_name not in _EDGE_NAMES:
            _graph(record, graph_name, self._method)  # raises for an unknown name
        nodes = {method: _nodes(record, graph_name, method) for method in {*self._methods}}
        for block, method in zip(self.event_blocks, self._methods, strict=True):
            maps = (record.debug_handle_map, record.delegate_map, record.instruction_id_to_num_outs_map)
            handles, delegates, outputs = ((by_method or {}).get(method, {}) for by_method in maps)
            for event in block.events:
                _resolve(event, handles, delegates, outputs)
                if event.debug_handles is None or event.name in FRAMEWORK[:3]:
                    continue
                own = [event.debug_handles] if isinstance(event.debug_handles, int) else event.debug_handles
                for node in (node for handle in own for node in nodes[method].get(handle, ())):
                    name = node.name + "_"
                    if name not in event.stack_traces:
                        event.stack_traces[name] = node.stack_trace or None
                        modules = {key: (path, kind) for key, path, kind in node.modules}
                        event.module_hierarchy[name] = modules or None
                    event.op_types.append(_operator(node.target))
        if record.reference_outputs is not None:
            self._use_reference_outputs(record.reference_outputs)

    def _use_reference_outputs(self, saved: bytes) -> None:
        from edgecore.executorch.devtools.numeric_gap import loaded_values

        by_method = loaded_values(saved)
        if not isinstance(by_method, dict) or not all(isinstance(cases, (list, tuple)) for cases in by_method.values()):
            raise FormatError("the reference outputs of the ETRecord are no lists by method")
        for block, method in zip(self.event_blocks, self._methods, strict=True):
            cases = by_method.get(method, [])
            index = 0 if block.bundled_input_index == -1 and len(cases) == 1 else block.bundled_input_index
            if index is not None and 0 <= index < len(cases):
                block.reference_output = cases[index]

    def _use_program(self, pte: PteFile) -> None:
        symbols = ProgramSymbols(pte)
        self._methods = self._methods_of_blocks(symbols)
        for block, method in zip(self.event_blocks, self._methods, strict=True):
            # If the operations of a delegate call have modules, give no modules to the call itself: its time includes
            # the time of the operations, which would count twice.
            inside: set[int | None] = set()
            for event in sorted(block.events, key=lambda event: not event.is_delegated_op):
                if not method or event._source is None:
                    continue
                meaning = symbols.find(method, event._source)
                is_call = not event.is_delegated_op and REPEATED.sub("", event.name) == DELEGATE
                if event.is_delegated_op or is_call:
                    event.delegate_backend_name = meaning.backend or None
                if event.is_delegated_op and any(origin.module for origin in meaning.origins):
                    inside.add(event._instruction_id)
                if meaning.origins:
                    event.debug_handles = [origin.handle for origin in meaning.origins]
                for origin in meaning.origins:
                    name = f"{origin.operator.replace('.', '_')}_{origin.handle}"
                    event.op_types.append(origin.operator)
                    file, _, line = origin.source.rpartition(":")
                    event.stack_traces[name] = f'File "{file}", line {line}' if file else None
                    if not (is_call and event._instruction_id in inside):
                        event.module_hierarchy[name] = {f"L__self__{origin.module}": (origin.module, "")}

    def rows(self, include_units: bool = True, include_delegate_debug_data: bool = False) -> list[dict[str, Any]]:
        """Return the rows of `to_dataframe`, without pandas."""
        return [row for block in self.event_blocks for row in block.rows(include_units, include_delegate_debug_data)]

    def to_dataframe(self, include_units: bool = True, include_delegate_debug_data: bool = False) -> Any:
        """Return a pandas data frame with a row for each event.

        Args:
            include_units: Name the unit in the titles of the columns with times.
            include_delegate_debug_data: Add columns with the metadata that delegates added to events.
        """
        return as_frame(self.rows(include_units, include_delegate_debug_data))

    def _printed(self, include_units: bool, include_delegate_debug_data: bool) -> tuple[list[str], list[list[str]]]:
        rows = self.rows(include_units, include_delegate_debug_data)
        rows = [row for row in rows if "OPERATOR_CALL" not in row["event_name"]]
        titles = [title for title in dict.fromkeys(key for row in rows for key in row) if title not in _NOT_PRINTED]
        return titles, [
            ["" if row.get(title) is None else printable(str(row[title])) for title in titles] for row in rows
        ]

    def print_data_tabular(
        self, file: IO[str] | None = None, include_units: bool = True, include_delegate_debug_data: bool = False
    ) -> None:
        """Print the events as a table, without the events `OPERATOR_CALL`.

        Args:
            file: Where to print; by default standard output.
            include_units: Name the unit in the titles of the columns with times.
            include_delegate_debug_data: Add columns with the metadata that delegates added to events.
        """
        titles, cells = self._printed(include_units, include_delegate_debug_data)
        for row in cells:
            for index, title in enumerate(titles):
                if row[index] and title.split()[0] in ("p10", "p50", "p90", "avg", "min", "max"):
                    row[index] = f"{float(row[index]):.6g}"
        widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
        for row in (titles, ["-" * width for width in widths], *cells):
            line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
            print(line.rstrip(), file=file or sys.stdout)

    def save_data_to_tsv(
        self, file: IO[str], include_units: bool = True, include_delegate_debug_data: bool = False
    ) -> None:
        """Write the events as tab-separated values, with the columns of `print_data_tabular`."""
        titles, cells = self._printed(include_units, include_delegate_debug_data)
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(["", *titles])
        writer.writerows([str(index), *row] for index, row in enumerate(cells))

    def get_exported_program(self, graph: str | None = None) -> Any:
        """Return a program of the ETRecord, loaded by torch.

        Args:
            graph: Its name; by default the edge program of the method.

        Returns:
            The program; None if there is no record, or it has no such program.

        Raises:
            FormatError: torch cannot load it.
        """
        from edgecore.executorch.devtools.numeric_gap import load_graph

        name = graph or f"{EDGE}/{self._method}"
        stored = self._record.graphs.get(name) if self._record else None
        return load_graph(stored) if stored else None

    def calculate_numeric_gap(
        self,
        distance: Any,
        disable_debug_handle_valdiation: bool = False,
        reference_graph: str | None = None,
    ) -> Any:
        """Compare the values that the runtime recorded with the values of a graph of the ETRecord.

        Args:
            distance: "MSE", "L1" (a sum), "SNR" (in dB), or a `NumericalComparatorBase`.
            disable_debug_handle_valdiation: Without effect. Only the nodes of `reference_graph` need debug handles.
            reference_graph: Name of the graph; by default the edge program of the method.

        Returns:
            A pandas data frame with a row for each operator whose values are known: its debug handles, the nodes of
            the graph, both values, and the gap, a list.

        Raises:
            ValueError: There is no record; it lacks inputs, weights or the graph; the graph does not accept the inputs;
                or the distance is unknown.
            FormatError: torch cannot load the graph.
        """
        import pandas  # type: ignore[import-untyped]

        from edgecore.executorch.devtools.numeric_gap import COLUMNS, numeric_gap

        if disable_debug_handle_valdiation:
            argument = "Inspector.calculate_numeric_gap(disable_debug_handle_valdiation=True)"
            warn_no_effect(argument, "debug handles are not validated")
        if self._record is None:
            raise ValueError("the numeric gap needs an ETRecord; pass etrecord to the Inspector")
        graph = _graph(self._record, reference_graph or EDGE, self._method)
        blocks = zip(self.event_blocks, self._methods, strict=True)
        candidates = (block.events for block, method in blocks if method == self._method)
        # Later blocks are runs with other inputs: compare only the first block that has recorded values.
        events = next((row for row in candidates if any(event.debug_data for event in row)), [])
        return pandas.DataFrame(numeric_gap(self._record, graph, events, distance, self), columns=list(COLUMNS))

    def find_total_for_module(self, module_name: str) -> float:
        """Return the sum of the average times of all events in modules whose path contains `module_name`.

        As in ExecuTorch's Inspector, a part of a path is enough ("block.1" also matches "block.10"), and with an
        ETRecord the call of a delegate counts in addition to its operations. With `program` each operation counts once.
        """
        total = 0.0
        for event in (event for block in self.event_blocks for event in block.events):
            if event.name == "OPERATOR_CALL" or event.perf_data is None:
                continue
            keys = (key for hierarchy in event.module_hierarchy.values() for key in hierarchy or ())
            total += event.perf_data.avg if any(module_name in key for key in keys) else 0.0
        return total


def _chosen_method(record: EtRecordFile | None, method: str | None) -> str:
    """Return the method to read from a record; see `Inspector.__init__`."""
    names = list(dict.fromkeys([*(record.debug_handle_map or {}), *record.methods])) if record else []
    if method is not None and names and method not in names:
        raise ValueError(f"the ETRecord has no method {method!r}; it has {', '.join(names)}")
    return method or ("forward" if "forward" in names or not names else names[0])


def _find_graph(record: EtRecordFile, name: str, method: str) -> Graph | None:
    """Return a graph by its name, which may lack `/METHOD`; None if there is none."""
    if name in _EDGE_NAMES:
        return record.graphs.get(f"{EDGE}/{method}")
    return record.graphs.get(name) or record.graphs.get(f"{name}/{method}")


def _graph(record: EtRecordFile, name: str, method: str) -> Graph:
    stored = _find_graph(record, name, method)
    if stored is None:
        raise ValueError(f"the ETRecord has no graph {name!r}; it has {', '.join(record.graphs)}")
    return stored


def _nodes(record: EtRecordFile, name: str, method: str) -> dict[int, list[GraphNode]]:
    graph = _find_graph(record, name, method)
    nodes: dict[int, list[GraphNode]] = {}
    for node in graph_nodes(graph) if graph else ():
        if node.handle and not node.target.endswith("getitem"):
            nodes.setdefault(node.handle, []).append(node)
    return nodes


def _resolve(event: Event, handles: dict[str, Any], delegates: dict[str, Any], outputs: dict[str, Any]) -> None:
    instruction = str(event._instruction_id)
    if event._instruction_id in (None, -1) or instruction not in handles:
        return
    event.num_outputs = outputs.get(instruction, 1)
    delegate = delegates.get(instruction)
    identifier = event.delegate_debug_identifier
    if identifier is None or delegate is None:
        event.debug_handles = handles[instruction]
        if identifier is None and event.name == DELEGATE and delegate is not None:
            event.delegate_backend_name = delegate.get("name", "")
        return
    event.delegate_backend_name = delegate.get("name", "")
    ids = delegate.get("delegate_map") or {}
    number = operation_number(event._source) if event._source else None
    event.debug_handles = next((ids[key] for key in (str(identifier), str(number), f"[{number}]") if key in ids), None)


def _operator(target: str) -> str:
    """Return the name of an operator: "aten.add.Tensor" of the edge dialect, "add.Tensor" of ATen."""
    parts = target.split(".")
    return ".".join(parts[-2:] if target.startswith("torch.ops.") else parts[-3:])
