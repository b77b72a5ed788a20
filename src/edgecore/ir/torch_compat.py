"""All private API of torch and torchao that edgecore and its backends use, under public names.

No other module imports a private name of torch (`tests/test_torch_names.py`), so only this file must change when a
release of torch moves a name. Names whose import loads sympy are imported when they are first used.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch._decomp import core_aten_decompositions as core_aten_decompositions
from torch._decomp import decomposition_table as decomposition_table
from torch._decomp import get_decompositions as get_decompositions
from torch._dispatch.python import enable_python_dispatcher as enable_python_dispatcher
from torch._export.verifier import Verifier as Verifier
from torch._guards import detect_fake_mode as detect_fake_mode
from torch._ops import HigherOrderOperator as HigherOrderOperator
from torch._ops import OpOverload as OpOverload
from torch._ops import OpOverloadPacket as OpOverloadPacket
from torch._prims_common import (
    is_contiguous_for_memory_format_or_false as is_contiguous_for_memory_format_or_false,
)
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
from torch.export import ExportedProgram
from torch.export._remove_effect_tokens_pass import _remove_effect_tokens
from torch.export._tree_utils import reorder_kwargs as reorder_kwargs
from torch.fx import Graph
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental.proxy_tensor import make_fx as make_fx
from torch.fx.node import _get_qualified_name
from torch.utils import _pytree

from edgecore.stability import public_names

if TYPE_CHECKING:
    from torch._export.serde.serialize import SerializedArtifact as SerializedArtifact
    from torch._export.serde.serialize import deserialize as deserialize
    from torch._export.serde.serialize import serialize as serialize
    from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate as executorch_call_delegate
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols as free_unbacked_symbols
    from torch.fx.experimental.symbolic_shapes import statically_known_true as statically_known_true
    from torch.utils._sympy.functions import FloorDiv as FloorDiv
    from torch.utils._sympy.numbers import int_oo as int_oo
    from torch.utils._sympy.value_ranges import ValueRanges as ValueRanges
    from torch.utils._sympy.value_ranges import bound_sympy as bound_sympy
    from torchao.quantization.pt2e._affine_quantization import (
        AffineQuantizedMinMaxObserver as AffineQuantizedMinMaxObserver,
    )

_, __getattr__ = public_names(
    "edgecore.ir.torch_compat",
    {
        "torch._export.serde.serialize": "SerializedArtifact deserialize serialize",
        "torch._higher_order_ops.executorch_call_delegate": "executorch_call_delegate",
        "torch.fx.experimental.symbolic_shapes": "free_unbacked_symbols statically_known_true",
        "torch.utils._sympy.functions": "FloorDiv",
        "torch.utils._sympy.numbers": "int_oo",
        "torch.utils._sympy.value_ranges": "ValueRanges bound_sympy",
        "torchao.quantization.pt2e._affine_quantization": "AffineQuantizedMinMaxObserver",
    },
)

LazyGraphModule = _LazyGraphModule
pytree = _pytree
qualified_name = _get_qualified_name
remove_effect_tokens = _remove_effect_tokens

AUTOCAST_CALLS = (torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast)
"""Functions whose calls enclose, in an exported graph, a region under `torch.autocast()` that has control flow."""

TRANSFORM_STEPS = "torch._functorch.predispatch"
"""The module of the functions that are the steps of `torch.func` transforms in an exported graph."""


def schema_of(operator: Any) -> Any:
    """Return the schema of an `OpOverload`: `name`, `arguments`, `returns`, `is_mutable`."""
    return operator._schema


def overload_name(operator: OpOverload) -> str:
    """Return the overload of an operator: `Tensor` for `aten.add.Tensor`."""
    return str(operator._overloadname)


def can_decompose(operator: OpOverload) -> bool:
    """Return True if torch implements an operator by other operators (CompositeImplicitAutograd)."""
    return bool(operator._can_decompose())


def is_composite(operator: OpOverload) -> bool:
    """Return True if the C++ kernel of an operator calls only other operators."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(operator._name, "CompositeImplicitAutograd")


def operator_names() -> list[str]:
    """List the names of all registered operators, such as `aten::add.Tensor`."""
    return torch._C._dispatch_get_all_op_names()


def is_functorch_tensor(value: object) -> bool:
    """Return True for a tensor inside a `torch.func` transform, which has no data."""
    return isinstance(value, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(value)


@contextmanager
def without_onednn() -> Iterator[None]:
    """Disable oneDNN, with which an LSTM would be a single operator without a decomposition."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def storage_identity(tensor: torch.Tensor) -> int:
    """Return a number that is equal for tensors that share memory."""
    return int(tensor.untyped_storage()._cdata)


def codegen_of(graph: Graph) -> Any:
    """Return the code generator of a graph, which knows the names and the nesting of its inputs."""
    return graph._codegen


def replace_parts(program: ExportedProgram, **parts: Any) -> ExportedProgram:
    """Return a shallow copy of a program with some parts replaced, for which torch has no public setters.

    Args:
        program: The program.
        parts: `graph_module`, `graph_signature`, `state_dict`, `constants`, `range_constraints`, `example_inputs`,
            `module_call_graph` or `verifiers`.
    """
    changed = copy.copy(program)
    for name, value in parts.items():
        assert hasattr(program, f"_{name}"), name
        setattr(changed, f"_{name}", value)
    return changed


def guards_of(program: ExportedProgram) -> Sequence[str]:
    """Return the conditions on input sizes that `torch.export` found: Python expressions as text."""
    guards: Sequence[str] | None = getattr(program, "_guards_code", None)
    return guards or ()


def import_tracing() -> None:
    """Import what `torch.export.export` would import at its first call."""
    import_module("torch.export._trace")


def quantized_operators() -> Any:
    """Register and return torch's namespace of quantize and dequantize operators, `torch.ops.quantized_decomposed`."""
    import_module("torch.ao.quantization.fx._decomposed")
    return torch.ops.quantized_decomposed


def register_codebook_operators() -> None:
    """Register torchao's operators for weights that are indices into a table, `torch.ops.quant`."""
    import_module("torchao.prototype.quantization.codebook_coreml.codebook_ops")
