"""ExecuTorch's settings: `EdgeCompileConfig` for lowering, `ExecutorchBackendConfig` for making the file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from edgecore import format as fmt
from edgecore.emit import ExternalConstants
from edgecore.errors import CompileError
from edgecore.ir.torch_compat import OpOverload
from edgecore.memory import MemoryPlanningPass
from edgecore.passes.pass_list import NamedPass, Pass
from edgecore.pipeline.lowering import FinishOptions, file_alignments
from edgecore.stability import warn_no_effect


@dataclass
class EdgeCompileConfig:
    """Settings of `to_edge` and `to_edge_transform_and_lower`: the argument `compile_config`.

    Attributes:
        _check_ir_validity: Without effect. Every program is verified, because later steps rely on it.
        _skip_dim_order: Without effect. edgecore has no operators that only change dim orders.
        _core_aten_ops_exception_list: Operators that may stay in the edge program although the edge dialect lacks them.
        preserve_ops: Operators that are not decomposed. To run the file, you need kernels for them.
    """

    _check_ir_validity: bool = True
    _skip_dim_order: bool = False
    _core_aten_ops_exception_list: Collection[OpOverload] = ()
    preserve_ops: Collection[OpOverload] = ()

    def __post_init__(self) -> None:
        if not self._check_ir_validity:
            reason = "every program is verified; _core_aten_ops_exception_list allows operators"
            warn_no_effect("EdgeCompileConfig(_check_ir_validity=False)", reason)
        if self._skip_dim_order:
            reason = "dim orders are read off the strides of values"
            warn_no_effect("EdgeCompileConfig(_skip_dim_order=True)", reason)
        for setting in ("_core_aten_ops_exception_list", "preserve_ops"):
            for operator in getattr(self, setting) or ():
                if not isinstance(operator, OpOverload):
                    raise CompileError(
                        f"{setting} has {operator}, which is no operator with its overload, "
                        "such as torch.ops.aten.linear.default"
                    )

    @property
    def allowed(self) -> frozenset[OpOverload]:
        """The operators that the verifier allows in addition to the edge dialect."""
        return frozenset(self._core_aten_ops_exception_list or ()) | frozenset(self.preserve_ops or ())


NO_EFFECT = {
    "propagate_device_config": "the runtime finds by itself which values can stay on a device",
    "to_out_var_pass": "the compiler chooses the out variant of each operator when it writes the file",
    "dynamic_memory_planning_mode": "memory is planned for the upper bounds of sizes",
    "emit_stacktrace": "the file always has the source line of each operator",
    "extract_delegate_segments": "blobs of delegates always are segments of their own, which a runtime can free",
    "sym_shape_eval_pass": "upper bounds of sizes come from the ranges of the exported program",
    "external_mutable_weights": "initial values of mutable buffers always are in the .pte",
    "emit_mutable_buffer_names": "the file always has the names of mutable buffers",
    "do_quant_fusion_and_const_prop": "constants always are folded, and backends fuse quantized operators",
    "run_reinplace_pass": "memory planning always computes in place where that is safe",
    "enable_non_cpu_memory_planning": "backends allocate the memory of devices at run time",
    "reinplace_extra_ops": "memory planning knows which kernels may compute in place",
}
"""Fields of `ExecutorchBackendConfig` that exist only for scripts of ExecuTorch -> why edgecore does not need them."""


@dataclass(frozen=True)
class ExecutorchBackendConfig:
    """Settings of `EdgeProgramManager.to_executorch`.

    Fields that this list lacks exist for scripts of ExecuTorch. A value other than the default has no effect, and
    issues a `NoEffectWarning` with the reason.

    Attributes:
        memory_planning_pass: The pass that places tensors in arenas, or a mapping from names of methods to such passes.
        passes: Passes that run before the passes of the stage `memory`.
        runtime: The target runtime: `executorch-1.5` or `edgecore`.
        external_constants: The weights to store in `.ptd` files. True: all of them, in one file. A name: all of them,
            in the file of that name. A mapping from patterns of qualified names to file names, where the first
            matching pattern counts: `{"*lora*": "adapter", "*": "base"}`. A function that takes the placeholder node of
            a weight and returns a file name, or None to store the weight in the `.pte`.
        segment_alignment: Alignment of each segment in the files, in bytes: a power of two of at least 128. With 4096
            or more a runtime can map, lock or read by DMA a single segment.
        constant_tensor_alignment: Minimum alignment of constant tensors in the files, in bytes: a power of two of at
            least 16. None for 16.
        delegate_alignment: Minimum alignment of the blobs of delegates, in bytes: a power of two. They are segments, so
            a larger number than `segment_alignment` raises the alignment of all segments.
        remove_view_copy: False to copy the elements of views instead of sharing memory, as with
            `MemoryPlanningPass(reuse=False)`.
    """

    # The fields have ExecuTorch's order, since its scripts may pass the first ones by position.
    passes: Sequence[Pass | NamedPass] = ()
    memory_planning_pass: MemoryPlanningPass | Mapping[str, MemoryPlanningPass] = field(
        default_factory=MemoryPlanningPass
    )
    propagate_device_config: Any = None
    to_out_var_pass: Callable[..., Any] | None = None
    dynamic_memory_planning_mode: Any = None
    emit_stacktrace: bool = False
    extract_delegate_segments: bool = True
    segment_alignment: int = fmt.DEFAULT_ALIGNMENTS.segment
    constant_tensor_alignment: int | None = None
    delegate_alignment: int | None = None
    sym_shape_eval_pass: Any = None
    remove_view_copy: bool = True
    external_constants: ExternalConstants = False
    external_mutable_weights: bool = False
    emit_mutable_buffer_names: bool = False
    do_quant_fusion_and_const_prop: bool = False
    run_reinplace_pass: bool = False
    enable_non_cpu_memory_planning: bool = True
    reinplace_extra_ops: Collection[Any] | None = None
    runtime: str = fmt.EXECUTORCH_1_5

    def __post_init__(self) -> None:
        for setting in fields(self):
            if setting.name in NO_EFFECT and getattr(self, setting.name) != setting.default:
                argument = f"ExecutorchBackendConfig({setting.name}=...)"
                warn_no_effect(argument, NO_EFFECT[setting.name])

    def finish_options(self) -> FinishOptions:
        """Return the settings for `LoweredProgram.finish`.

        Raises:
            CompileError: An alignment is not a power of two, or too small.
        """
        return FinishOptions(
            runtime=self.runtime,
            planning=self.memory_planning_pass,
            passes=self.passes,
            external_constants=self.external_constants,
            alignments=file_alignments(self.segment_alignment, self.constant_tensor_alignment, self.delegate_alignment),
            shares_views=self.remove_view_copy,
        )
