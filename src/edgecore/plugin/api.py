"""The protocols of a backend's compiler, and the data classes that it exchanges with edgecore. Imports no torch.

`edgecore.format` also has classes named `CompileSpec`, `MemoryNeed` and `NamedBlob`. Those mirror the schemas of the
files. The classes here are the interface for packages, which does not change when a file format changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pydantic import BaseModel
    from torch.export import ExportedProgram
    from torch.fx import Node

    from edgecore.partition import Partitioner
    from edgecore.plugin.backend_info import BackendInfo
    from edgecore.recipe import RecipeParameters

MemoryKind = Literal["scratch", "persistent", "staging"]
State = Literal["ok", "broken", "disabled"]


@dataclass(frozen=True)
class CompileSpec:
    """A key and bytes that the `.pte` stores with a delegate. Only the backend interprets them."""

    key: str
    value: bytes


@dataclass(frozen=True)
class MemoryNeed:
    """Memory that a delegate allocates for tensors of the largest shapes.

    Attributes:
        kind: "scratch" (used only during a run), "persistent" (keeps its content between runs), or "staging" (holds
            copies of arguments).
        bytes: Size in bytes.
        space: Number of the memory space: 0 is host memory, the backend numbers the others.
        alignment: Alignment in bytes.
        shared_group: Needs of the same non-empty group share memory, so the report counts only the largest one.
    """

    kind: MemoryKind
    bytes: int
    space: int = 0
    alignment: int = 16
    shared_group: str = ""


@dataclass(frozen=True)
class NamedBlob:
    """Bytes that the file stores once under a key, for all delegates that use the key.

    Attributes:
        data: The bytes.
        alignment: Alignment in bytes of `data` in the file.
        sha256: SHA-256 of `data` (32 bytes) if the backend has computed it; if empty, edgecore computes it.
        readers: The debug handles of the nodes that read the data, if it holds packed or converted weights. With
            `external_data` the data moves to the same file as the weights of these nodes.
        repeats_blob: True if the blob also contains the weights in `data`, as for a simulator that needs the whole
            partition. With `external_data`, `data` then moves to the `.ptd` file, but the blob in the `.pte` still has
            the weights.
    """

    data: bytes | memoryview
    alignment: int = 16
    sha256: bytes = b""
    readers: tuple[int, ...] = ()
    repeats_blob: bool = False


@dataclass(frozen=True)
class PreprocessResult:
    """Result of `BackendCompiler.preprocess` for one partition.

    Attributes:
        blob: The compiled partition.
        named_data: Data that several delegates may share, by key.
        debug_handle_map: Maps the backend's key of each step (operation) in the blob to the debug handles of the nodes
            that the step computes. A step with all handles of the partition stands for the partition as a whole.
        value_dim_orders: Key of a step -> the dims of the value that it reports for debugging (`host->event_value`),
            from the outermost to the innermost in memory. Steps whose values have the graph's dim order may be missing.
        compatibility: Target, library and format versions as text. The backend's native library reads it before it
            loads the blob, and rejects blobs that it cannot run.
        memory: Memory that the delegate will allocate.
        unread_results: Additional outputs after the partition's outputs, for a backend whose library requires that a
            value be an output. The delegate writes them, but no node reads them. Each is a fake tensor, like the `val`
            of a node.
        estimated_cycles: Key of a step -> the cycles that the compiler expects on its device. Profiles show them as
            estimates, not as measurements.
        graph: The operations of a blob from which they cannot be read, such as a binary for one device. A compiler that
            can read its blobs implements `BlobGraphReader` instead.
    """

    blob: bytes
    named_data: Mapping[str, NamedBlob] = field(default_factory=dict)
    debug_handle_map: Mapping[int | str, tuple[int, ...]] = field(default_factory=dict)
    value_dim_orders: Mapping[int | str, tuple[int, ...]] = field(default_factory=dict)
    compatibility: str = ""
    memory: Sequence[MemoryNeed] = ()
    unread_results: Sequence[Any] = ()
    estimated_cycles: Mapping[int | str, int] = field(default_factory=dict)
    graph: BlobGraph | None = None


@dataclass(frozen=True)
class OperatorSupport:
    """The dtypes and restrictions of one supported operator, for reports and documentation."""

    operator: str
    dtypes: tuple[str, ...]
    constraints: str = ""


@dataclass(frozen=True)
class Problem:
    """Something that this machine lacks (`what`), and the command that installs or repairs it (`remedy`)."""

    what: str
    remedy: str


@dataclass(frozen=True)
class InstalledBackend:
    """One backend of one installed package, and its state.

    Attributes:
        backend_id: Id in the `.pte`, such as "XnnpackBackend".
        distribution: Normalised name of the package.
        version: Version of the package.
        state: "ok", "broken" (importing the package failed) or "disabled" (by an environment variable).
        name: Name that users write, such as "xnnpack"; empty unless the state is "ok".
        summary: One line about the backend; empty unless the state is "ok".
        problem: Text of the exception if the backend is broken, name of the environment variable if it is disabled.
        ambiguous: True if another package provides the same `backend_id` and the user chose none of the packages.
        info: Declaration of the backend; None unless the state is "ok".
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
    """Compiler of a backend. `BackendInfo.compiler` names the class, whose constructor has no arguments."""

    Options: type[BaseModel]
    """Pydantic model of the backend's options, with types and descriptions: the keywords of `Backend(name, ...)`."""

    def partitioner(self, options: BaseModel, *, runtime: str) -> Partitioner:
        """Make the partitioner for one compilation.

        Args:
            options: An instance of `Options` with the values of the user.
            runtime: The target runtime: "executorch-1.5" or "edgecore".
        """

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition.

        Args:
            program: The partition as a separate edge program. Its weights are placeholders, as in an exported program.
            specs: The compile specs that the partitioner set for this partition.

        Raises:
            Exception: The partition cannot be compiled. Its nodes run elsewhere, and a `FallbackWarning` is issued.
        """

    def operator_support(self) -> Sequence[OperatorSupport]:
        """List the operators that are supported with the default options, for reports and documentation."""

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """Check that `blob` uses only features that the target runtime supports.

        Args:
            blob: A blob that `preprocess` returned.
            named_data: Named data of the whole file: key -> object whose attribute `data` holds the bytes.
            runtime: The target runtime: "executorch-1.5" or "edgecore".

        Returns:
            One sentence for each violation; empty if the blob is allowed.

        Raises:
            FormatError: The blob is damaged.
        """

    def check(self) -> Sequence[Problem]:
        """List the tools and drivers that this machine lacks for compiling or running, for `edgecore doctor`.

        edgecore itself checks the native library.
        """


Selects = Callable[["Node"], bool]
"""A function that returns True for the nodes that a recipe may quantize."""


@dataclass(frozen=True)
class QuantizerRecipe:
    """A recipe of `edgecore.compile(quantize=...)` that quantizes with a `Quantizer` of torchao.

    edgecore removes the annotations of nodes that the user's rules exclude, and of nodes that share a scale with them.

    Attributes:
        make_quantizer: Makes the quantizer.
        calibrates: True if the recipe needs samples to record the ranges of activations.
        make_training_quantizer: Makes the quantizer for quantization-aware training, whose specifications have fake
            quantization instead of observers; None if the recipe does not support training.
    """

    make_quantizer: Callable[[], Any]
    calibrates: bool
    make_training_quantizer: Callable[[], Any] | None = None


@dataclass(frozen=True)
class RewriteRecipe:
    """A recipe of `edgecore.compile(quantize=...)` that rewrites the exported program and needs no samples.

    Attributes:
        rewrite: Takes a program and a function that returns True for the nodes to quantize; returns a rewritten copy.
            It may raise `CompileError`. The passed function also works for nodes that `edgecore.sdk.Editor` makes: they
            inherit the `meta` of the nodes that they replace.
        options: Options of the backend that the recipe requires. Options that the user sets take precedence.
        computes_in: Dtype in which the backend computes floating-point values with these options. The quantization
            report and `compare` round results to this dtype.
        describe_weights: Returns for the quantization report how the weights of a call are stored, such as `weights as
            indices of 4 bits into a table`, if no dequantize calls in the program show it; None for other calls.
    """

    rewrite: Callable[[ExportedProgram, Selects], ExportedProgram]
    options: Mapping[str, Any] = field(default_factory=dict)
    computes_in: Literal["float32", "float16"] = "float32"
    describe_weights: Callable[[Node], str | None] = lambda node: None
    calibrates: ClassVar[bool] = False


@dataclass(frozen=True)
class RecipeSupport:
    """A recipe of a backend, with its parameters.

    Attributes:
        parameters: Pydantic model of the parameters, derived from `edgecore.sdk.RecipeParameters`.
        make: Makes the recipe from an instance of `parameters` with the user's values and the backend's defaults.
        takes_rules: False if the recipe applies to the whole model, so that users cannot exclude parts of it.
        steps: The largest difference of an operator's quantized result from quantized eager PyTorch, in steps of its
            scale, for a device whose arithmetic rounds more than once. The conformance suite allows this difference,
            and shows it in its rows.
    """

    parameters: type[RecipeParameters]
    make: Callable[[Any], QuantizerRecipe | RewriteRecipe]
    takes_rules: bool = True
    steps: int = 0

    @property
    def calibrates(self) -> bool:
        """True if the recipe with the backend's default parameters needs samples."""
        return self.make(self.parameters()).calibrates


@runtime_checkable
class QuantizingCompiler(BackendCompiler, Protocol):
    """A compiler with recipes for `edgecore.compile(quantize=...)`."""

    def recipes(self) -> Mapping[str, RecipeSupport]:
        """Return the recipes by their names for `edgecore.Recipe`, such as "int8"."""


@runtime_checkable
class ConfigurableCompiler(BackendCompiler, Protocol):
    """A compiler of a backend with several implementations, for different processors or drivers."""

    def configurations(self) -> Mapping[str, Mapping[str, str]]:
        """Return a mapping from the name of each implementation to the environment variables that select it.

        The conformance suite runs its checks of recipes once for each implementation, in a new process with these
        environment variables. On a machine that cannot run an implementation, loading a file must fail with an error
        message.
        """


@runtime_checkable
class TargetingCompiler(BackendCompiler, Protocol):
    """A compiler whose supported operators depend on the options, such as a target."""

    def operator_support_with(self, options: BaseModel) -> Sequence[OperatorSupport]:
        """List the operators that are supported with these options, as `operator_support` does for the defaults.

        Args:
            options: An instance of `Options` with the values of the user.
        """


@runtime_checkable
class CrossCompiler(BackendCompiler, Protocol):
    """A compiler on systems that cannot execute the delegates, such as Linux for Apple's Core ML."""

    def cannot_run_here(self, load_options: Mapping[str, Any]) -> str:
        """Return the reason that this system cannot execute delegates, as a sentence; empty if it can.

        The conformance suite skips the checks that run a delegate, and reports the reason.

        Args:
            load_options: The user's options for loading, as in `edgecore.load(..., options={"acme": {...}})`.
        """


@runtime_checkable
class LowPrecisionCompiler(BackendCompiler, Protocol):
    """A compiler of a backend that may compute float32 values in another dtype, even without a recipe."""

    def computes_in(self, options: BaseModel) -> Literal["float32", "float16"]:
        """Return the dtype in which the backend computes floating-point values; `compare` rounds results to it.

        Args:
            options: An instance of `Options` with the values of the user.
        """


@runtime_checkable
class WeightRoundingCompiler(LowPrecisionCompiler, Protocol):
    """A compiler that may apply the dtype of `computes_in` only to stored weights, while activations stay float32."""

    def rounds_weights_only(self, options: BaseModel) -> bool:
        """Return True if the backend computes in float32 with weights that are rounded to the dtype of `computes_in`.

        Args:
            options: An instance of `Options` with the values of the user.
        """


@runtime_checkable
class ReportingCompiler(BackendCompiler, Protocol):
    """A compiler that adds lines to the report of a compilation, such as cycles, memory use, or warnings."""

    def report_lines(self, results: Sequence[PreprocessResult]) -> Sequence[str]:
        """Return lines about the delegates of a program.

        Args:
            results: The results of `preprocess` for these delegates, in the order of the program.
        """


@dataclass(frozen=True)
class CompiledPartition:
    """A partition that `BackendCompiler.preprocess` compiled, for `LinkingCompiler.link`.

    Attributes:
        method: Name of the method.
        program: The partition that was passed to `preprocess`.
        specs: The compile specs that were passed to `preprocess`.
        result: The result of `preprocess`.
    """

    method: str
    program: ExportedProgram
    specs: Sequence[CompileSpec]
    result: PreprocessResult


@runtime_checkable
class LinkingCompiler(BackendCompiler, Protocol):
    """A compiler whose delegates may share data, such as weights that several methods use."""

    def link(self, partitions: Sequence[CompiledPartition]) -> Sequence[PreprocessResult]:
        """Make the final results of all partitions that one compilation delegates to the backend.

        edgecore calls this once, after `preprocess` has compiled all partitions, and only if there are two or more. To
        store data once, put it under the same key into the `named_data` of each result that uses it. If linking needs
        further facts about a partition, return a subclass of `PreprocessResult` with these facts from `preprocess`.

        Args:
            partitions: The partitions of all methods, in the order of the methods and of their programs.

        Returns:
            A result for each partition, in this order: the result of `preprocess`, or another with as many
            `unread_results`.

        Raises:
            Exception: The partitions cannot be linked. The results of `preprocess` stay, and a `FallbackWarning` is
                issued.
        """


@runtime_checkable
class BlobReader(BackendCompiler, Protocol):
    """A compiler that can describe the content of its blobs, for `edgecore inspect --blobs`."""

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """Describe a blob: its inputs, outputs, nodes with shapes, and other facts for debugging.

        Args:
            blob: The blob of one delegate.
            named_data: Named data of the whole file: key -> object whose attribute `data` holds the bytes.

        Returns:
            Lines of text.

        Raises:
            FormatError: The blob is damaged.
        """


@dataclass(frozen=True)
class BlobNode:
    """An operation of a blob.

    Attributes:
        operation: Its key in `PreprocessResult.debug_handle_map`, by which traces name it.
        name: The kind of operation, such as "Conv2d".
        inputs: Ids of the values that it reads, without constants.
        outputs: Ids of the values that it computes.
    """

    operation: int | str
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class BlobGraph:
    """The operations of a blob in the order of execution.

    Attributes:
        nodes: The operations.
        inputs: Ids of the values that are the delegate's inputs, in order.
        outputs: Ids of the values that are the delegate's outputs, in order.
        values: Id of a value -> its dtype, sizes and quantization: "int8 [1, 8, 8, 16] scale 0.02 zero 3".
    """

    nodes: tuple[BlobNode, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    values: Mapping[int, str]


@runtime_checkable
class BlobGraphReader(BackendCompiler, Protocol):
    """A compiler that can read the graph of its blobs, for views that open delegates."""

    def blob_graph(self, blob: bytes, named_data: Mapping[str, Any]) -> BlobGraph:
        """Return the graph in a blob.

        Args:
            blob: The blob of one delegate.
            named_data: Named data of the whole file: key -> object whose attribute `data` holds the bytes.

        Raises:
            FormatError: The blob is damaged.
        """
