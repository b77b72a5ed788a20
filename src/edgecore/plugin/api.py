"""The compile side of a backend: its protocols, and the records that it hands to edgecore. Imports no torch.

`edgecore.format` has tables named `CompileSpec`, `MemoryNeed` and `NamedBlob` as well. Those follow the schemas of the files,
field by field; these are what packages are written against, so a change of a file does not reach them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pydantic import BaseModel
    from torch.export import ExportedProgram

    from edgecore.partition import Partitioner
    from edgecore.plugin.backend_info import BackendInfo

MemoryKind = Literal["scratch", "persistent", "staging"]
State = Literal["ok", "broken", "disabled"]


@dataclass(frozen=True)
class CompileSpec:
    """A key and bytes that travel with a delegate in the `.pte`, for the backend's own use."""

    key: str
    value: bytes


@dataclass(frozen=True)
class MemoryNeed:
    """Memory that a delegate will ask for at its maximum shapes; `bytes` and `alignment` in bytes.

    Needs that share a non-empty `shared_group` count as their maximum.
    """

    kind: MemoryKind
    bytes: int
    space: int = 0
    alignment: int = 16
    shared_group: str = ""


@dataclass(frozen=True)
class NamedBlob:
    """Bytes stored once in the file under a key, shared by every delegate that names the key.

    `sha256`: the hash of `data` (32 bytes), from a backend that has computed it; else it is computed for the file.
    """

    data: bytes | memoryview
    alignment: int = 16
    sha256: bytes = b""


@dataclass(frozen=True)
class PreprocessResult:
    """What `preprocess` made of one partition.

    `debug_handle_map` maps the blob's own identifiers to the `debug_handle`s of the nodes that they came from.
    `compatibility` names target, library and format versions; the plugin's native side judges it before loading.
    `unread_results`: `val`s of tensors that the delegate writes after the partition's results, though nothing reads them.
    """

    blob: bytes
    named_data: Mapping[str, NamedBlob] = field(default_factory=dict)
    debug_handle_map: Mapping[int | str, tuple[int, ...]] = field(default_factory=dict)
    compatibility: str = ""
    memory: Sequence[MemoryNeed] = ()
    unread_results: Sequence[Any] = ()


@dataclass(frozen=True)
class OperatorSupport:
    """One row of a backend's table: what it takes of one operator, for reports and documentation."""

    operator: str
    dtypes: tuple[str, ...]
    constraints: str = ""


@dataclass(frozen=True)
class Problem:
    """Something that is missing on this machine, and the command that mends it."""

    what: str
    remedy: str


@dataclass(frozen=True)
class InstalledBackend:
    """One backend of one installed package, and whether it can be used.

    `problem` is the exception's text if the state is `broken`, the variable's name if `disabled`. `ambiguous`: another
    package provides the same backend_id, and using it needs a choice. `name` and `summary` are empty and `info` is
    None unless the state is `ok`.
    """

    backend_id: str
    distribution: str
    version: str
    state: State
    name: str = ""
    summary: str = ""
    problem: str = ""
    ambiguous: bool = False
    info: BackendInfo | None = field(default=None, repr=False)


class BackendCompiler(Protocol):
    """The compile side of a backend: the object that `BackendInfo.compiler` names (a class without arguments)."""

    Options: type[BaseModel]
    """Options of the backend, each typed and documented: the values of `Backend("name", key=value)`."""

    def partitioner(self, options: BaseModel, *, runtime: str) -> Partitioner:
        """Partitioner for one compilation. `runtime` is the profile: `executorch-1.5` or `edgecore`."""

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition. `program` is an edge program of its own: lifted, its weights as placeholders."""

    def operator_support(self) -> Sequence[OperatorSupport]:
        """The operators that it takes."""

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """Sentences about what in `blob` the runtime profile does not allow; empty if nothing."""

    def check(self) -> Sequence[Problem]:
        """What this machine lacks for compiling or running."""


@dataclass(frozen=True)
class Recipe:
    """One word for `edgecore.compile(quantize=...)`: a function that makes torchao's `Quantizer` for it.

    `calibrates`: it needs samples, for the ranges of values.
    """

    make_quantizer: Callable[[], Any]
    calibrates: bool


@dataclass(frozen=True)
class RewriteRecipe:
    """One word for `edgecore.compile(quantize=...)` that needs no samples: `rewrite` makes another program of an exported
    one, which stays as it is, and may raise `CompileError`. `options` of its backend that go with it; the user's go before.
    `computes_in`: what these options make of floating-point values, for the quantization report.
    """

    rewrite: Callable[[ExportedProgram], ExportedProgram]
    options: Mapping[str, Any] = field(default_factory=dict)
    computes_in: Literal["float32", "float16"] = "float32"


@runtime_checkable
class QuantizingCompiler(BackendCompiler, Protocol):
    """A compiler that also knows recipes of `edgecore.compile(quantize=...)`."""

    def recipes(self) -> Mapping[str, Recipe | RewriteRecipe]:
        """By name, such as `int8`."""


@runtime_checkable
class ConfigurableCompiler(BackendCompiler, Protocol):
    """A compiler whose backend has other code for other processors or drivers, which this machine may run as well."""

    def configurations(self) -> Mapping[str, Mapping[str, str]]:
        """Environment variables by the name of a configuration, such as that of a processor that it stands for.

        The conformance suite repeats its checks of recipes in a process with each. One that this machine cannot run
        refuses to load a file, in a sentence.
        """


@runtime_checkable
class ReportingCompiler(BackendCompiler, Protocol):
    """A compiler that adds to the report of a compilation what only it knows: cycles, use of its memories, its warnings."""

    def report_lines(self, results: Sequence[PreprocessResult]) -> Sequence[str]:
        """Lines about its delegates, in the order of the program."""


@runtime_checkable
class BlobReader(BackendCompiler, Protocol):
    """A compiler that can say what one of its blobs holds, for `edgecore inspect --blobs`."""

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """Lines: inputs, outputs, nodes with shapes, whatever helps who looks for a mistake.

        `named_data` is the named data of the whole file, by key. Raises FormatError with a sentence if the blob is damaged.
        """
