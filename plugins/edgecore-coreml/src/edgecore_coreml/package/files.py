"""Pack a Core ML model into the folder that ExecuTorch's Core ML delegate expects in a blob, and unpack it.

The folder has a model package (`.mlpackage`). Unlike coremltools' packages, its files contain no random identifiers, so
equal models give equal blobs. This module imports neither torch nor coremltools.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgecore.errors import FormatError
from edgecore_coreml.package.blob import COMPILED, METADATA, MODEL, Files, parse, read_blob, resolve, write_blob

_AUTHOR = "com.apple.CoreML"
SPECIFICATION = f"{MODEL}/Data/{_AUTHOR}/model.mlmodel"
WEIGHTS = f"{MODEL}/Data/{_AUTHOR}/weights/weight.bin"
_MANIFEST = f"{MODEL}/Manifest.json"


@dataclass(frozen=True)
class State:
    """A mutable buffer of the PyTorch model that Core ML keeps as a state.

    Attributes:
        buffer: Qualified name of the buffer.
        state: Name of the state in the Core ML model, where it is float16.
        dtype: dtype of the buffer: "float32" or "float16".
        shape: Shape of buffer and state.
        initial: True if the `.pte` has the buffer's initial values, as named data with the buffer's name. If False, the
            buffer starts with zeros.
    """

    buffer: str
    state: str
    dtype: str
    shape: tuple[int, ...]
    initial: bool = False


@dataclass(frozen=True)
class Package:
    """A Core ML model.

    Attributes:
        specification: The model as coremltools serializes it, without weights.
        weights: The weight file; empty if there is none.
        inputs: Names of the inputs, in the order of the delegate's arguments.
        outputs: Names of the outputs.
        states: The mutable buffers that Core ML keeps as states.
        function: Name of the ML program's function to call; empty if it has only one.
        compiled: The files of a compiled model by path in the blob; empty if the blob has a model package.
    """

    specification: bytes
    weights: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[State, ...] = ()
    function: str = ""
    compiled: Files = field(default_factory=dict)


def pack(package: Package) -> bytes:
    """Return the blob of a model. A device caches the compiled model under the model's identifier, a hash."""
    identifier = identify(package.specification, package.weights)
    return _folder(package.specification, package.weights, _arguments(package) | {"identifier": identifier})


def pack_functions(specification: bytes, weights: bytes, packages: Mapping[str, Package]) -> bytes:
    """Return the packed folder of a model with several functions, one per method.

    Args:
        specification: The model with all functions, as coremltools serializes it.
        weights: The weight file of all functions.
        packages: Maps the name of each function to a package with only this function, its arguments and states.
    """
    methods = {name: _arguments(package) for name, package in packages.items()}
    identifier = identify(specification, weights)
    return _folder(specification, weights, {"methods": methods, "identifier": identifier})


def identify(specification: bytes, weights: bytes) -> str:
    """Return the identifier of a model, a hash of its specification and weights."""
    return f"edgecore_{_digest(specification, weights).hex()}"


def package_files(specification: bytes, weights: bytes) -> Files:
    """Map the path in the blob of each file of a model package (`.mlpackage`) to the content of the file."""
    files = {SPECIFICATION: specification, _MANIFEST: _manifest(_digest(specification, weights))}
    return files | ({WEIGHTS: weights} if weights else {})


def write_files(files: Files, folder: Path) -> None:
    """Write the files of a blob with a model package into a folder.

    The folder for weights is created even if the model has no weights, because the manifest always lists that folder.
    """
    for path in (WEIGHTS, *files):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        (folder / path).write_bytes(content)


def unpack(blob: bytes | memoryview, named_data: Mapping[str, Any]) -> Package:
    """Return the model of a blob.

    Args:
        blob: A packed folder, or a reference to a packed folder in the named data.
        named_data: Maps each key of the file's named data to an object with the bytes as `data`.

    Raises:
        FormatError: The blob is damaged.
    """
    folder, function = resolve(blob, named_data)
    files = read_blob(folder, {})
    compiled = {path: content for path, content in files.items() if path.startswith(f"{COMPILED}/")}
    if compiled and SPECIFICATION in files:
        raise FormatError(f"the blob is damaged: it has {MODEL} and {COMPILED}, and readers could take either")
    if not compiled and SPECIFICATION not in files:
        raise FormatError(f"the blob is damaged: it has neither {SPECIFICATION} nor {COMPILED}")
    metadata = _metadata(files)
    if function:
        methods = metadata.get("methods") if isinstance(metadata, dict) else None
        if not isinstance(methods, dict) or function not in methods:
            raise FormatError(f"the blob is damaged: {METADATA} has no method {function!r}")
        metadata = methods[function]
    inputs, outputs = _names(metadata)
    specification, weights = files.get(SPECIFICATION, b""), files.get(WEIGHTS, b"")
    return Package(specification, weights, inputs, outputs, _states(metadata), function, compiled)


def _digest(specification: bytes, weights: bytes) -> bytes:
    digest = hashlib.sha256(specification)
    digest.update(weights)
    return digest.digest()


def _folder(specification: bytes, weights: bytes, metadata: Mapping[str, Any]) -> bytes:
    return write_blob({METADATA: _json(metadata)} | package_files(specification, weights))


def _arguments(package: Package) -> dict[str, Any]:
    arguments: dict[str, Any] = {"inputNames": list(package.inputs), "outputNames": list(package.outputs)}
    if package.states:  # ExecuTorch's delegate ignores unknown entries
        states = [asdict(state) for state in package.states]
        arguments["edgecoreStates"] = [
            {key: value for key, value in state.items() if value is not False} for state in states
        ]
    return arguments


def _metadata(files: Files) -> Any:
    try:
        return parse(files.get(METADATA, b""))
    except (ValueError, RecursionError):
        return None


def _states(metadata: Any) -> tuple[State, ...]:
    try:
        return tuple(
            State(
                str(item["buffer"]),
                str(item["state"]),
                str(item["dtype"]),
                tuple(map(int, item["shape"])),
                "initial" in item,
            )
            for item in metadata.get("edgecoreStates", ())
        )
    except (ValueError, TypeError, KeyError):
        raise FormatError(f"the blob is damaged: {METADATA} has a state without names, dtype and shape") from None


def _names(metadata: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        names = metadata["inputNames"], metadata["outputNames"]
    except (TypeError, KeyError):
        raise FormatError(f"the blob is damaged: {METADATA} has no names of inputs and outputs") from None
    for listed in names:
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise FormatError(f"the blob is damaged: {METADATA} has a name that is no text")
    if len(set(names[0])) < len(names[0]):
        raise FormatError(f"the blob is damaged: {METADATA} has the same input twice")
    return tuple(names[0]), tuple(names[1])


def _manifest(digest: bytes) -> bytes:
    """Return the manifest of a model package, with identifiers made from a hash: equal models get equal manifests."""
    model, weights = (str(uuid.UUID(bytes=digest[at : at + 16], version=4)).upper() for at in (0, 16))
    items = {
        model: _item("Specification", "model.mlmodel"),
        weights: _item("Weights", "weights"),
    }
    return _json({"fileFormatVersion": "1.0.0", "itemInfoEntries": items, "rootModelIdentifier": model})


def _item(kind: str, name: str) -> dict[str, str]:
    return {"author": _AUTHOR, "description": f"CoreML Model {kind}", "name": name, "path": f"{_AUTHOR}/{name}"}


def _json(value: object) -> bytes:
    return json.dumps(value, indent=4, sort_keys=True).encode()
