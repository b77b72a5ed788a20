"""The files of a model package (`.mlpackage`), and the folder that ExecuTorch's Core ML delegate expects in a blob.

The files have no random identifiers, as coremltools writes them, so that equal models give equal blobs. This module
imports neither torch nor coremltools.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass

from edgecore.errors import FormatError
from edgecore_coreml.blob import METADATA, MODEL, Files, read_blob, write_blob

_AUTHOR = "com.apple.CoreML"
_SPECIFICATION = f"{MODEL}/Data/{_AUTHOR}/model.mlmodel"
_WEIGHTS = f"{MODEL}/Data/{_AUTHOR}/weights/weight.bin"
_MANIFEST = f"{MODEL}/Manifest.json"


@dataclass(frozen=True)
class Package:
    """A Core ML model.

    Attributes:
        specification: The model as coremltools serializes it, without its weights.
        weights: The file of the weights; empty if there is none.
        inputs: Names of the inputs, in the order of the delegate's arguments.
        outputs: Names of the outputs.
    """

    specification: bytes
    weights: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def pack(package: Package) -> bytes:
    """Return the blob of a model. Its identifier, by which a device caches the compiled model, depends on all bytes."""
    digest = hashlib.sha256(package.specification)
    digest.update(package.weights)
    metadata = {
        "inputNames": list(package.inputs),
        "outputNames": list(package.outputs),
        "identifier": f"edgecore_{digest.hexdigest()}",
    }
    files = {METADATA: _json(metadata), _SPECIFICATION: package.specification, _MANIFEST: _manifest(digest.digest())}
    return write_blob(files | ({_WEIGHTS: package.weights} if package.weights else {}))


def unpack(blob: bytes | memoryview) -> Package:
    """Return the model of a blob.

    Raises:
        FormatError: The blob is damaged, or has a compiled model.
    """
    files = read_blob(blob)
    if _SPECIFICATION not in files:
        raise FormatError(f"the blob has no {_SPECIFICATION}: its model is compiled, or it is damaged")
    inputs, outputs = _names(files)
    return Package(files[_SPECIFICATION], files.get(_WEIGHTS, b""), inputs, outputs)


def _names(files: Files) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        metadata = json.loads(files.get(METADATA, b""))
        names = metadata["inputNames"], metadata["outputNames"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise FormatError(f"the blob is damaged: {METADATA} has no names of inputs and outputs") from None
    for listed in names:
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise FormatError(f"the blob is damaged: {METADATA} has a name that is no text")
    return tuple(names[0]), tuple(names[1])


def _manifest(digest: bytes) -> bytes:
    """Return the list of the items of a package, with identifiers made of a hash."""
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
