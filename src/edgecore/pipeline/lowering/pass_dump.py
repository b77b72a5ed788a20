"""Write the graph after each pass that changed it to a numbered text file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node

from edgecore.errors import WriteError
from edgecore.files import write_file
from edgecore.ir.control_flow import control_flow, is_control_flow
from edgecore.ir.dialect.dim_orders import dim_order
from edgecore.ir.dialect.dtypes import dtype_name
from edgecore.ir.graph import operator_name, source_line


class PassDump:
    """Writes files such as `FOLDER/03-fold_constants.txt`; for several methods `FOLDER/METHOD/03-fold_constants.txt`.

    The number counts the passes that ran on a method, so a missing number means that the pass did not change the
    program. `00-exported` is the program before the first pass.

    Raises:
        WriteError: The folder cannot be created or read, or it is not empty.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            is_empty = not any(self.folder.iterdir())
        except OSError as error:
            raise WriteError(f"cannot dump passes to {self.folder}: {error.strerror or error}") from error
        if not is_empty:
            raise WriteError(f"cannot dump passes to {self.folder}: the folder is not empty; choose a new one")
        self._counts: dict[str, int] = {}
        self._texts: dict[str, str] = {}

    def observer(self, method: str, alone: bool) -> Callable[[str, ExportedProgram], None]:
        """Return a function that `PassManager` calls with the name of each pass and the program after the pass.

        Args:
            method: The name of the method.
            alone: True if this is the only method, so that its files need no subfolder.
        """
        folder = self.folder if alone else self.folder / method

        def write(name: str, program: ExportedProgram) -> None:
            number = self._counts.setdefault(method, 0)
            self._counts[method] += 1
            text = graph_text(program)
            if text != self._texts.get(method):
                self._texts[method] = text
                path = folder / f"{number:02d}-{name.replace('/', '_')}.txt"
                try:
                    folder.mkdir(exist_ok=True)
                except OSError as error:
                    raise WriteError(f"cannot dump passes to {folder}: {error.strerror or error}") from error
                write_file(path, text)

        return write


def graph_text(program: ExportedProgram) -> str:
    """Return a program as text: a line for each input, call and result, with dtypes, shapes and lines of the model.

    The bodies of a control-flow node follow it, indented.
    """
    kinds = {
        spec.arg.name: f"{spec.kind.name.lower()} {spec.target}" if spec.kind != InputKind.USER_INPUT else "user_input"
        for spec in program.graph_signature.input_specs
        if hasattr(spec.arg, "name")
    }
    lines = [
        f"%{node.name}: {_type(node.meta.get('val'))}  # {kinds.get(node.name, '')}"
        for node in program.graph.nodes
        if node.op == "placeholder"
    ]
    lines += _body(program.graph_module, "")
    return "\n".join(lines) + "\n"


def _body(graph_module: GraphModule, indent: str) -> Iterator[str]:
    for node in graph_module.graph.nodes:
        if node.op == "placeholder" and indent:
            yield f"{indent}%{node.name}: {_type(node.meta.get('val'))}"
        elif node.op == "output":
            yield f"{indent}return {_text(node.args[0])}"
        elif node.op == "call_function":
            arguments = [_text(value) for value in node.args]
            arguments += [f"{name}={_text(value)}" for name, value in node.kwargs.items()]
            call = f"{operator_name(node.target)}({', '.join(arguments)})"
            source = source_line(node)
            yield f"{indent}%{node.name}: {_type(node.meta.get('val'))} = {call}{f'  # {source}' if source else ''}"
            if is_control_flow(node):
                for body in control_flow(node).bodies:
                    yield f"{indent}  body:"
                    yield from _body(body, indent + "    ")


def _text(value: Any) -> str:
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return str(value)


def _type(val: Any) -> str:
    if isinstance(val, torch.Tensor):
        order = dim_order(val)
        layout = "" if order == tuple(range(val.dim())) else f" dims {order}" if order else f" strides {val.stride()}"
        return f"{dtype_name(val.dtype)}{[*val.shape]}{layout}"
    if isinstance(val, (list, tuple)):
        return f"({', '.join(map(_type, val))})"
    return type(val).__name__
