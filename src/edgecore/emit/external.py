"""Choose the constants to store in `.ptd` files instead of the `.pte`, and the file of each."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgecore.emit.constant_data import tensor_bytes
from edgecore.errors import CompileError
from edgecore.ir.delegate import LoweredBackendModule
from edgecore.ir.graph import calls, handles_of
from edgecore.ir.program.constants import Constants, parameter_of
from edgecore.plugin import NamedBlob
from edgecore.stability import level_of_caller

DEFAULT_FILE = "_default_external_constant"
"""Name of the `.ptd` file if the user chose none, as in executorch; `save` replaces it by the name of the `.pte`."""

_LISTED = 5
"""Largest number of names that an error message lists."""

ExternalConstants = bool | str | Mapping[str, str] | Callable[[Node], str | None]


class Rule:
    """Chooses the file of each constant, and records which constants stayed in the `.pte`.

    Args:
        choose: Takes a placeholder and the qualified name of its constant; returns a file name without `.ptd`, or None
            for the `.pte`.
    """

    def __init__(self, choose: Callable[[Node, str], str | None]) -> None:
        self._choose = choose
        self._inside: dict[str, str] = {}  # name of a weight in the blob of a backend -> the backend
        self._stored: set[str] = set()

    def __call__(self, node: Node, name: str) -> str | None:
        """Return the name of the `.ptd` file for a constant, or None to keep the constant in the `.pte`."""
        return self._choose(node, name)

    def store(self, name: str) -> None:
        """Record that a constant, or data computed from it, is stored in a `.ptd` file."""
        self._stored.add(parameter_of(name))

    def keep(self, name: str, backend: str) -> None:
        """Record that a constant is inside a backend's blob, although a `.ptd` file was chosen for it."""
        self._inside[parameter_of(name)] = backend

    def check(self) -> None:
        """Warn of weights that stay in the `.pte` although a `.ptd` file was chosen; called after emitting."""
        kept = {name: backend for name, backend in self._inside.items() if name not in self._stored}
        if kept:
            backends = list(dict.fromkeys(kept.values()))
            weights = "1 weight" if len(kept) == 1 else f"{len(kept)} weights"
            warnings.warn(
                f"external_data: {weights}, such as {next(iter(kept))}, cannot leave the .pte, because "
                f"{' and '.join(backends)} {'keeps' if len(backends) == 1 else 'keep'} weights in the blob; compile "
                "these layers for another backend to store their weights in a .ptd file",
                stacklevel=level_of_caller(),
            )


class Patterns(Rule):
    """A rule that maps `fnmatch` patterns of qualified names to file names; the first match decides.

    A pattern names parameters and buffers of the model. Values computed from a parameter, such as quantized integers
    and scales, go to the parameter's file.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__(self._first_match)
        self.files = files
        self._names: dict[str, None] = {}

    def _first_match(self, node: Node, name: str) -> str | None:
        self._names[parameter_of(name)] = None
        return next((file for pattern, file in self.files.items() if _matches(pattern, name)), None)

    def check(self) -> None:
        """Check that each pattern had an effect; called after all methods are emitted.

        Raises:
            CompileError: A pattern matches no name, or only names of weights inside a backend's blob.
        """
        for pattern in self.files:
            matched = [name for name in self._names if _matches(pattern, name)]
            if not matched:
                near = get_close_matches(pattern, self._names, n=_LISTED, cutoff=0.4) or list(self._names)[:_LISTED]
                raise CompileError(
                    f"external_data: the pattern {pattern!r} matches no weight of the program; "
                    f"names of weights are {', '.join(near) or 'none'}"
                )
            inside = [name for name in matched if name in self._inside]
            if inside and not self._stored & set(matched):
                raise CompileError(
                    f"external_data: the pattern {pattern!r} matches only weights that the backend "
                    f"{self._inside[inside[0]]} keeps in its own blob, such as {inside[0]}; leave the pattern out, or "
                    "compile these layers for another backend"
                )
        super().check()


def external_rule(choice: ExternalConstants) -> Rule:
    """Make the rule for the option `external_constants`.

    Args:
        choice: True for all constants in one file with a default name; the name of one file; a mapping from patterns
            of qualified names (see `Patterns`) to file names; or a function that takes the
            placeholder and returns a file name, or None for the `.pte`.

    Raises:
        CompileError: A file name is not valid. If `choice` is a function, the error is raised when the rule is called.
    """
    if isinstance(choice, bool):
        return Rule(lambda node, name: DEFAULT_FILE if choice else None)
    if isinstance(choice, str):
        only = _file_name(choice)
        return Rule(lambda node, name: only)
    if isinstance(choice, Mapping):
        return Patterns({pattern: _file_name(file) for pattern, file in choice.items()})

    def of_node(node: Node, name: str) -> str | None:
        file = choice(node)
        return None if file is None else _file_name(file)

    return Rule(of_node)


def _matches(pattern: str, name: str) -> bool:
    return fnmatchcase(parameter_of(name), pattern) or fnmatchcase(name, pattern)


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
                rule.store(spec.target)
    return files


def files_of_delegate(module: LoweredBackendModule, rule: Rule) -> dict[str, str]:
    """Return key -> file name for the named data of a delegate that is stored in `.ptd` files.

    If `rule` chooses one file for all constants of the delegate, the named data goes to that file. If the constants go
    to different files, named data goes to the file of the constant with the same bytes. Without such a constant, it
    goes to the file of the constant from which it was probably packed, chosen among the constants that the nodes in
    `NamedBlob.readers` read. Other data stays in the `.pte`.

    If the backend keeps the state of a mutable buffer, the named data under the buffer's qualified name is its initial
    content. `rule` chooses the file by that name.
    """
    partition = module.original_module
    held = {buffer.name: rule(buffer.node, buffer.name) for buffer in module.held_buffers}
    files = {key: file for key, file in held.items() if file is not None and key in module.result.named_data}
    others = {key: blob for key, blob in module.result.named_data.items() if key not in held}
    constants = Constants(partition)
    nodes = [node for node in partition.graph.nodes if constants.has(node)]
    chosen = {node: rule(node, str(constants.specs[node.name].target)) for node in nodes}
    moved: set[Node] = set()
    if len(set(chosen.values())) == 1:
        (file,) = set(chosen.values())
        if file is not None and others:
            files |= dict.fromkeys(others, file)
            moved.update(() if all(blob.repeats_blob for blob in others.values()) else nodes)
    elif others:
        by_content = {}
        for node in nodes:
            tensor = constants.get(node)
            by_content[hashlib.sha256(tensor_bytes(tensor, tuple(range(tensor.dim())))).digest()] = node
        readers = _readers(partition)
        for key, blob in others.items():
            node = by_content.get(hashlib.sha256(blob.data).digest()) or _packed_from(blob, readers, constants)
            if node is not None and (file := chosen[node]) is not None:
                files[key] = file
                moved.update(() if blob.repeats_blob else (node,))
    _note(rule, module, chosen, moved, files)
    return files


def _note(
    rule: Rule,
    module: LoweredBackendModule,
    chosen: Mapping[Node, str | None],
    moved: Collection[Node],
    files: Mapping[str, str],
) -> None:
    """Tell `rule` which constants of a delegate are in a `.ptd` file, and which are in the delegate's blob."""
    for buffer in module.held_buffers:
        if buffer.name in files:
            rule.store(buffer.name)
    specs = Constants(module.original_module).specs
    for node, file in chosen.items():
        name = str(specs[node.name].target)
        if node in moved:
            rule.store(name)
        elif file is not None:
            rule.keep(name, module.backend_id)


def _readers(partition: ExportedProgram) -> dict[int, list[Node]]:
    """Map each debug handle to the calls in the partition that have it."""
    readers: dict[int, list[Node]] = {}
    for node in calls(partition.graph_module):
        for handle in handles_of(node):
            readers.setdefault(handle, []).append(node)
    return readers


def _packed_from(blob: NamedBlob, readers: Mapping[int, list[Node]], constants: Constants) -> Node | None:
    """Guess the constant that `blob` was packed from.

    This is the first constant that would have the size of `blob` at 8, 16, 32 or 4 bits per element; otherwise the
    largest constant.
    """
    nodes = [node for handle in blob.readers for node in readers.get(handle, ())]
    sources = list(dict.fromkeys(source for node in nodes for source in _constants_of(node, constants)))
    size = memoryview(blob.data).nbytes
    for bits in (8, 16, 32, 4):
        for source in sources:
            if constants.stored(source).numel() * bits == size * 8:
                return source
    return max(sources, key=lambda source: constants.stored(source).numel(), default=None)


def _constants_of(node: Node, constants: Constants) -> Iterator[Node]:
    """Yield the constants that a call reads, directly or through calls that read only constants, such as dequantize."""
    for source in node.all_input_nodes:
        if constants.has(source):
            yield source
        elif source.op == "call_function" and _is_constant(source, constants):
            yield from _constants_of(source, constants)


def _is_constant(node: Node, constants: Constants) -> bool:
    inputs = node.all_input_nodes
    return constants.has(node) or (
        node.op == "call_function" and bool(inputs) and all(_is_constant(source, constants) for source in inputs)
    )
