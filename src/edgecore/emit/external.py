"""Choose the constants that are stored in `.ptd` files instead of the `.pte`, and their files."""

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
"""Name of the file if the user chose none, as in executorch; `save` replaces it by the name of the `.pte`."""

ExternalConstants = bool | str | Mapping[str, str] | Callable[[Node], str | None]
Rule = Callable[[Node, str], str | None]
"""A function (placeholder, qualified name of the constant) -> file name without `.ptd`, or None for the `.pte`."""


def external_rule(choice: ExternalConstants) -> Rule:
    """Make the rule for the option `external_constants`.

    Args:
        choice: True for all constants in one file with a default name; the name of one file; a mapping from patterns
            of qualified names (as in `fnmatch`; the first match counts) to file names; or a function that takes the
            placeholder and returns a file name, or None for the `.pte`.

    Raises:
        CompileError: A file name is not valid. If `choice` is a function, the error comes when the rule is called.
    """
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


def _file_name(value: object) -> str:
    name = value.removesuffix(".ptd") if isinstance(value, str) else ""
    if not name or name in (".", "..") or any(part in name for part in "/\\\0"):
        raise CompileError(
            f"external_constants: {value!r} is no file name; use a name without a folder, such as 'weights'"
        )
    return name


def files_of_constants(program: ExportedProgram, rule: Rule) -> dict[str, str]:
    """Return placeholder name -> file name for the constants that `rule` puts into `.ptd` files.

    Tensors and numbers that the model's code contains, which `torch.export` lifts to inputs, stay in the `.pte`.
    """
    constants = Constants(program)
    files = {}
    for node in program.graph.nodes:
        if not constants.has(node) or not constants.stored(node).numel():
            continue
        spec = constants.specs[node.name]
        if spec.kind != InputKind.CONSTANT_TENSOR and spec.target is not None:
            file = rule(node, spec.target)
            if file is not None:
                files[node.name] = file
    return files


def files_of_delegate(module: LoweredBackendModule, rule: Rule) -> dict[str, str]:
    """Return key -> file name for the named data of a delegate that go into `.ptd` files.

    If `rule` sends all constants of the delegate to the same file, its named data go there. If the constants go to
    different files, named data go to the file of the constant with the same bytes. Data that the backend computed from
    several constants, or packed in another layout, then stay in the `.pte`.

    Named data under the qualified name of a mutable buffer that the backend holds are its initial content: `rule` chooses
    their file by that name.
    """
    partition = module.original_module
    held = {buffer.name: rule(buffer.node, buffer.name) for buffer in module.held_buffers}
    of_buffers = {key: file for key, file in held.items() if file is not None and key in module.result.named_data}
    others = {key: blob for key, blob in module.result.named_data.items() if key not in held}
    constants = Constants(partition)
    nodes = [node for node in partition.graph.nodes if constants.has(node)]
    chosen = {node: rule(node, str(constants.specs[node.name].target)) for node in nodes}
    files = set(chosen.values())
    if len(files) == 1:
        (file,) = files
        return of_buffers if file is None else of_buffers | dict.fromkeys(others, file)
    by_content = {}
    for node, file in chosen.items():
        tensor = constants.get(node)
        by_content[hashlib.sha256(tensor_bytes(tensor, tuple(range(tensor.dim())))).digest()] = file
    by_key = {key: by_content.get(hashlib.sha256(blob.data).digest()) for key, blob in others.items()}
    return of_buffers | {key: file for key, file in by_key.items() if file is not None}
