"""Which constants leave the `.pte` for a `.ptd` file, and which file that is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgecore.emit.constant_data import tensor_bytes
from edgecore.errors import CompileError
from edgecore.ir.constants import Constants
from edgecore.ir.delegate import LoweredBackendModule

DEFAULT_FILE = "_default_external_constant"
"""Name of the file when none is given: the peer's. `save` calls it after the `.pte`."""

ExternalConstants = bool | str | Mapping[str, str] | Callable[[Node], str | None]
Rule = Callable[[Node, str], str | None]
"""(placeholder, qualified name) -> file name without `.ptd`, None for the `.pte`."""


def external_rule(choice: ExternalConstants) -> Rule:
    """The rule behind `external_constants`: all, one file, a file for each pattern of names, or a function of the node."""
    if isinstance(choice, bool):
        return lambda node, name: DEFAULT_FILE if choice else None
    if isinstance(choice, str):
        only = _file_name(choice)
        return lambda node, name: only
    if isinstance(choice, Mapping):
        files = {pattern: _file_name(file) for pattern, file in choice.items()}
        return lambda node, name: next((file for pattern, file in files.items() if fnmatchcase(name, pattern)), None)

    def of_node(node: Node, name: str) -> str | None:
        file = choice(node)
        return None if file is None else _file_name(file)

    return of_node


def _file_name(given: object) -> str:
    name = given.removesuffix(".ptd") if isinstance(given, str) else ""
    if not name or name in (".", "..") or any(part in name for part in "/\\\0"):
        raise CompileError(
            f"external_constants: {given!r} is no file name; give one without a folder, such as 'weights'"
        )
    return name


def files_of_constants(program: ExportedProgram, rule: Rule) -> dict[str, str]:
    """Placeholder name -> file, for those that leave. Numbers that tracing lifted out of the code stay in the `.pte`."""
    constants = Constants(program)
    files = {}
    for node in program.graph.nodes:
        if not constants.has(node) or not constants.get(node).numel():
            continue
        spec = constants.specs[node.name]
        if spec.kind != InputKind.CONSTANT_TENSOR and spec.target is not None:
            file = rule(node, spec.target)
            if file is not None:
                files[node.name] = file
    return files


def files_of_delegate(module: LoweredBackendModule, rule: Rule) -> dict[str, str]:
    """Key -> file, for the named data of a delegate that leave.

    They go where all of the delegate's constants go. If these go to several files, each goes with the constant that has
    the same bytes, and what the backend made of several or packed anew stays in the `.pte`.
    """
    part = module.original_module
    constants = Constants(part)
    nodes = [node for node in part.graph.nodes if constants.has(node)]
    chosen = {node: rule(node, str(constants.specs[node.name].target)) for node in nodes}
    files = set(chosen.values())
    if len(files) == 1:
        (file,) = files
        return {} if file is None else dict.fromkeys(module.result.named_data, file)
    by_content = {}
    for node, file in chosen.items():
        tensor = constants.get(node)
        by_content[hashlib.sha256(tensor_bytes(tensor, tuple(range(tensor.dim())))).digest()] = file
    found = {key: by_content.get(hashlib.sha256(blob.data).digest()) for key, blob in module.result.named_data.items()}
    return {key: file for key, file in found.items() if file is not None}
