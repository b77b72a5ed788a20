"""List operators of executorch 1.5's Vulkan delegate, with their dtypes, and where tensors may be stored.

A memory is a pair of storage and layout. If an entry has one set of memories for all inputs, all inputs of a call must
be in the same memory of this set. Results with the same set are then in that memory, too. `EXTRA` lists the additional
operators of edgecore's delegate.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from itertools import product

import torch

from edgecore_vulkan.graph.calls import STATES, Call, Memory, TensorValue
from edgecore_vulkan.graph.profile import Profile
from edgecore_vulkan.schema.graph import Layout, Storage

Memories = frozenset[Memory]

W, H, C = Layout.WIDTH_PACKED, Layout.HEIGHT_PACKED, Layout.CHANNELS_PACKED
_LAYOUTS = (W, H, C)
_INT8_CHANNELS = (Layout.INT8_4W4C, Layout.INT8_4C1W, Layout.INT8_CONV2D)
_INT8_ROWS = (Layout.INT8_4H4W, Layout.INT8_4W)
_PLAIN = {**dict.fromkeys(_INT8_CHANNELS, C), **dict.fromkeys(_INT8_ROWS, W)}
"""The layout that edgecore's delegate uses for an int8 tensor instead of ExecuTorch's int8 layout."""

WRITTEN = frozenset({W, C, *_PLAIN})
"""The layouts that the compiler writes into blobs; edgecore's delegate supports no others."""
ANY: Memories = frozenset(Memory(*pair) for pair in product((Storage.BUFFER, Storage.TEXTURE_3D), _LAYOUTS))
TEXTURE = frozenset(memory for memory in ANY if memory.storage == Storage.TEXTURE_3D)
CONTIGUOUS = frozenset(memory for memory in ANY if memory.layout == W)
ROW_BUFFER = frozenset({Memory(Storage.BUFFER, W)})
CHANNELS = frozenset({Memory(Storage.TEXTURE_3D, C)})
ROW_TEXTURE = frozenset({Memory(Storage.TEXTURE_3D, W)})
INT8_ANY = frozenset(Memory(Storage.BUFFER, layout) for layout in _PLAIN)
INT8_CHANNELS = frozenset(Memory(Storage.BUFFER, layout) for layout in _INT8_CHANNELS)

FLOAT = frozenset({torch.float16, torch.float32})
INT = frozenset({torch.int32, torch.int64})
BOOL = frozenset({torch.bool})
INT8 = frozenset({torch.int8})
NUMBER = FLOAT | INT
ALL = NUMBER | BOOL


@dataclass(frozen=True)
class Entry:
    """An operator of the registry: the dtypes and memories (storage and layout) that the delegate supports for it.

    Attributes:
        dtypes: Supported dtypes of input tensors; a tuple has a set per argument.
        memories: Supported memories of input tensors, except constants that the operator prepares itself.
        parameters: Supported memories of the inputs after the first; None: the memories of the first input.
        result_dtypes: Dtypes of results; None: the dtypes of the inputs.
        result_memories: Supported memories of each result; None: the memories of the inputs. If inputs and first result
            have equal sets, they are in the same memory.
        resizes: The sizes of tensors may change between runs.
        high_rank: Tensors may have more than 4 dims.
        prepares: The operator reads constants directly; other operators need a call of `et_vk.prepack` per constant.
        any_constants: Constants that the operator prepares may exceed the texture limits.
        primary: Index of the argument that must not be a constant if `prepares` is true.
    """

    dtypes: frozenset[torch.dtype] | tuple[frozenset[torch.dtype], ...] = FLOAT
    memories: Memories = ANY
    parameters: Memories | None = None
    result_dtypes: frozenset[torch.dtype] | tuple[frozenset[torch.dtype], ...] | None = None
    result_memories: tuple[Memories, ...] | None = None
    resizes: bool = True
    high_rank: bool = False
    prepares: bool = False
    any_constants: bool = False
    primary: int = 0


UNCHECKED = NUMBER | BOOL | INT8 | {torch.uint8, torch.float64}
"""Accepts all dtypes. For operators with integer weights or results, the pass that writes the call checks them."""


def _buffer(layout: Layout) -> Memories:
    return frozenset({Memory(Storage.BUFFER, layout)})


_UNARY = ("abs", "cos", "exp", "gelu", "hardswish", "hardtanh", "neg", "relu", "sigmoid", "sin", "sqrt", "rsqrt",
          "tanh", "round", "leaky_relu", "log10", "hardshrink")  # fmt: skip
_BINARY = ("add.Tensor", "sub.Tensor", "minimum.default", "mul.Tensor", "div.Tensor", "div.Tensor_mode",
           "pow.Tensor_Tensor")  # fmt: skip
_COMPARISONS = ("eq", "lt", "le", "gt", "ge")
_CONVOLUTION = Entry(memories=CHANNELS, prepares=True, any_constants=True)
_MATRIX = Entry(memories=CONTIGUOUS, prepares=True)
_COMPARE = Entry(NUMBER, result_dtypes=BOOL, high_rank=True)
_MOVE = Entry(ALL, high_rank=True)
_FULL = Entry(ALL, resizes=False)
_DYNAMIC = Entry(UNCHECKED, ROW_BUFFER)
_FLOAT_OR_CHANNELS = ROW_BUFFER | CHANNELS


def _int8(memories: Memories, results: Memories | None = None, *, prepares: bool = True) -> Entry:
    """Return the entry of an operator on int8 tensors; by default, the operator prepares its constants itself."""
    return Entry(
        UNCHECKED, memories, result_memories=(results or memories,), resizes=False, prepares=prepares,
        any_constants=True,
    )  # fmt: skip


REGISTRY: dict[str, Entry] = {
    **{f"aten.{name}.default": Entry() for name in _UNARY},
    "aten.clamp.default": Entry(NUMBER),
    **{f"aten.{name}": Entry(NUMBER, high_rank=True) for name in _BINARY},
    **{f"aten.{name}.Tensor": _COMPARE for name in _COMPARISONS},
    **{f"aten.{name}.Scalar": _COMPARE for name in (*_COMPARISONS, "ne")},
    **{f"aten.{name}": Entry(BOOL, high_rank=True) for name in (
        "bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_not.default", "logical_and.default", "logical_or.default",
        "logical_not.default")},
    "aten.pow.Tensor_Scalar": Entry(high_rank=True),
    "aten._to_copy.default": Entry(ALL, result_dtypes=ALL),
    "aten._softmax.default": Entry(),
    "aten._log_softmax.default": Entry(),
    "aten.mm.default": _MATRIX,
    "aten.bmm.default": _MATRIX,
    "aten.linear.default": _MATRIX,
    **{f"aten.{name}": Entry(memories=TEXTURE, high_rank=True) for name in (
        "mean.dim", "sum.dim_IntList", "amax.default", "amin.default")},
    **{f"aten.{name}.default": Entry(result_dtypes=INT, high_rank=True) for name in ("argmax", "argmin")},
    "aten.avg_pool2d.default": Entry(memories=CHANNELS),
    "aten.max_pool2d.default": Entry(memories=CHANNELS),
    "aten.convolution.default": _CONVOLUTION,
    "et_vk.conv_with_clamp.default": _CONVOLUTION,
    "et_vk.sdpa.default": Entry(memories=CONTIGUOUS),
    "aten.permute_copy.default": _MOVE,
    "aten.view_copy.default": _MOVE,
    "aten.squeeze_copy.dims": _MOVE,
    "aten.unsqueeze_copy.default": _MOVE,
    "aten.clone.default": _MOVE,
    "aten.gather.default": _MOVE,
    "aten.expand_copy.default": Entry(ALL, resizes=False, high_rank=True),
    "aten.cat.default": Entry(NUMBER),
    "aten.select_copy.int": _MOVE,
    "aten.slice_copy.Tensor": _MOVE,
    "aten.split_with_sizes_copy.default": _MOVE,
    "aten.flip.default": Entry(ALL, CHANNELS, resizes=False),
    "aten.index_select.default": Entry(ALL, CHANNELS, resizes=False),
    "aten.where.self": Entry((BOOL, FLOAT, FLOAT), result_dtypes=FLOAT),
    "aten.arange.start_step": Entry(NUMBER),
    "aten.constant_pad_nd.default": Entry(ALL),
    "aten.full.default": _FULL,
    "aten.full_like.default": _FULL,
    "aten.upsample_nearest2d.vec": Entry(memories=CHANNELS, resizes=False),
    "aten.upsample_bilinear2d.vec": Entry(memories=CHANNELS, resizes=False),
    "aten.pixel_shuffle.default": Entry(),
    "aten.repeat.default": Entry(ALL, resizes=False),
    "aten.embedding.default": Entry((FLOAT, INT), prepares=True, primary=1),
    "aten.native_group_norm.default": Entry(
        memories=CHANNELS, result_memories=(CHANNELS, ROW_BUFFER, ROW_BUFFER), resizes=False, prepares=True),
    "aten.native_layer_norm.default": Entry(prepares=True),
    "et_vk.rms_norm.default": Entry(memories=CONTIGUOUS, prepares=True),
    "et_vk.prepack.default": _MOVE,
    "quantized_decomposed.quantize_per_tensor.default": Entry(
        UNCHECKED, _FLOAT_OR_CHANNELS, result_memories=(INT8_ANY,), resizes=False, high_rank=True),
    "quantized_decomposed.dequantize_per_tensor.default": Entry(
        UNCHECKED, INT8_ANY, result_memories=(_FLOAT_OR_CHANNELS,), resizes=False, high_rank=True),
    **{f"quantized_decomposed.{name}": _DYNAMIC for name in (
        "quantize_per_token.default", "dequantize_per_token.default", "choose_qparams.tensor",
        "choose_qparams_per_token_asymmetric.default")},
    "torchao.choose_qparams_affine.default": Entry(
        UNCHECKED, CONTIGUOUS, result_memories=(ROW_TEXTURE, ROW_TEXTURE)),
    "aten._weight_int8pack_mm.default": Entry(UNCHECKED, CONTIGUOUS, prepares=True),
    "et_vk.linear_q4gsw.default": Entry(UNCHECKED, CONTIGUOUS, resizes=False, prepares=True),
    "et_vk.linear_dq8ca_q4gsw.default": Entry(
        UNCHECKED, CONTIGUOUS, ROW_TEXTURE, result_memories=(CONTIGUOUS,), resizes=False, prepares=True),
    "et_vk.q8ta_conv2d.default": _int8(_buffer(Layout.INT8_CONV2D), INT8_CHANNELS),
    "et_vk.q8ta_conv2d_dw.default": _int8(_buffer(Layout.INT8_CONV2D), INT8_CHANNELS),
    "et_vk.q8ta_conv2d_pw.default": _int8(_buffer(Layout.INT8_4W4C), INT8_CHANNELS),
    "et_vk.q8ta_linear.default": _int8(_buffer(Layout.INT8_4H4W)),
    "et_vk.q8ta_linear_gemv.default": _int8(_buffer(Layout.INT8_4W)),
    "et_vk.q8ta_add.default": _int8(INT8_ANY, prepares=False),
}  # fmt: skip
"""Entries by the name of the call in a blob."""

EXTRA: dict[str, Entry] = {
    **{f"aten.{name}.default": Entry(high_rank=True) for name in (
        "silu", "hardsigmoid", "log", "log1p", "expm1", "erf", "floor", "ceil", "trunc", "sign", "reciprocal", "elu")},
    "aten.maximum.default": Entry(NUMBER, high_rank=True),
    "aten.remainder.Tensor": Entry(NUMBER, high_rank=True),
    "aten.ne.Tensor": _COMPARE,
    "aten.bitwise_xor.Tensor": Entry(BOOL | INT, high_rank=True),
    "aten.logical_xor.default": Entry(BOOL, high_rank=True),
    "aten.cat.default": _MOVE,
    "aten.flip.default": _MOVE,
    "aten.index_select.default": _MOVE,
    "aten.where.self": Entry(ALL, high_rank=True),
    "et_vk.sdpa.default": Entry(FLOAT | BOOL, memories=CONTIGUOUS),
    **{f"edgecore.{name}.default": Entry(memories=ROW_BUFFER) for name in ("rotate_halves", "rotate_pairs")},
    **dict.fromkeys(sorted(STATES), Entry(NUMBER, ROW_BUFFER, high_rank=True, prepares=True)),
}  # fmt: skip
"""Entries of edgecore's delegate by ATen name: additional operators, and replacements of ExecuTorch's entries."""

_PREPACK = "et_vk.prepack.default"
_COPIES = frozenset({"aten.clone.default", _PREPACK})
"""Operators whose result may be in another memory than the input."""

_REDUCTIONS = frozenset({"aten.mean.dim", "aten.sum.dim_IntList", "aten.amax.default", "aten.amin.default",
                         "aten.argmax.default", "aten.argmin.default"})  # fmt: skip


def entry_of(name: str, profile: Profile) -> Entry | None:
    """Return the registry's entry of an operator for the target `profile`; None if that target's delegate lacks it."""
    entry = REGISTRY.get(name)
    return entry if profile.is_stock else EXTRA.get(name, entry)


def problem(call: Call, profile: Profile, layouts: Set[Layout] = WRITTEN) -> str | None:
    """Return why the delegate of the target `profile` does not support an operator call, or None if it does.

    Calls of `et_vk.prepack` are inserted later, so constants count as tensors in the memory that the call needs.
    """
    entry = entry_of(call.name, profile)
    if entry is None:
        return f"the delegate has no operator {call.name}"
    tensors = [*call.inputs(), *(value for value in call.outputs if isinstance(value, TensorValue))]
    rank = max((len(value.shape) for value in tensors), default=0)
    limit = profile.max_rank
    if rank > limit:
        return f"a tensor has {rank} dims, more than {limit}"
    if not profile.is_stock:
        return next(
            (
                f"a tensor has {value.elements} elements, more than buffer_limit={profile.buffer_limit}"
                for value in tensors
                if value.elements > profile.buffer_limit
            ),
            None,
        )
    reason = _dtype_problem(call, entry)
    if reason is None and not all(possible for _, possible in possible_memories(call, profile, layouts)):
        reason = "a tensor fits neither the texture limits nor a buffer that the operator supports"
    return reason


def _dtype_problem(call: Call, entry: Entry) -> str | None:
    allowed = entry.dtypes
    for index, argument in enumerate(call.args):
        for value in argument if isinstance(argument, list) else [argument]:
            if isinstance(value, TensorValue):
                dtypes = allowed[index] if isinstance(allowed, tuple) else allowed
                if call.name in _COPIES:
                    dtypes = dtypes | INT8
                if value.dtype not in dtypes:
                    return f"{call.name} of {_name(value.dtype)}"
    return None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def fits_texture(shape: tuple[int, ...], layout: Layout, limits: tuple[int, int, int]) -> bool:
    """Return True if a tensor fits into a 3-d texture; `limits` are its width, height and depth (channels * batch)."""
    if len(shape) > 4:
        return False
    batch, *extents = (1,) * (4 - len(shape)) + shape
    channels, height, width = extents
    if layout == W:
        width = -(-width // 4)
    elif layout == H:
        height = -(-height // 4)
    else:
        channels = -(-channels // 4)
    sizes = (width, height, channels * batch)
    return all(size <= limit for size, limit in zip(sizes, limits, strict=True))


def possible_memories(
    call: Call, profile: Profile, layouts: Set[Layout] = WRITTEN
) -> list[tuple[list[TensorValue], Memories]]:
    """Group the tensors of a call that need the same memory (storage, layout); return each group's possible memories.

    Constants that the operator prepares itself are in no group, but limit the possible memories.
    """
    entry = entry_of(call.name, profile)
    assert entry is not None
    outputs = [value for value in call.outputs if isinstance(value, TensorValue)]
    args = list(call.inputs())
    sources = [value for value in args if not is_prepared(call, value, profile)]
    if call.name in _COPIES:
        possible = INT8_ANY if call.output.dtype == torch.int8 else ANY
        copies = [(sources, _fitting(args, possible, profile, layouts)), *_grouped(outputs, possible, profile, layouts)]
        return [group for group in copies if group[0]]
    if entry.any_constants:
        args = sources
    inputs, results = _memories(call, entry)
    groups: list[tuple[list[TensorValue], Memories]] = []
    if entry.parameters is not None:
        groups = [group for value in sources[1:] for group in _grouped([value], entry.parameters, profile, layouts)]
        args = [value for value in args if value not in sources[1:]]
        sources = sources[:1]
    if not isinstance(results, tuple):
        results = (results,) * len(outputs)
    joined = outputs[: next((index for index, memories in enumerate(results) if memories != inputs), len(outputs))]
    groups.insert(0, (sources + joined, _fitting(args + joined, inputs, profile, layouts)))
    for value, memories in list(zip(outputs, results, strict=True))[len(joined) :]:
        groups += _grouped([value], memories, profile, layouts)
    return groups


def _grouped(
    values: list[TensorValue], memories: Memories, profile: Profile, layouts: Set[Layout]
) -> list[tuple[list[TensorValue], Memories]]:
    return [(values, _fitting(values, memories, profile, layouts))] if values else []


def is_prepared(call: Call, value: TensorValue, profile: Profile) -> bool:
    """Return True for a constant that the operator of `call` reads directly, without a call of `et_vk.prepack`."""
    entry = entry_of(call.name, profile)
    if value.constant is None or entry is None:
        return False
    is_primary = entry.prepares and call.args[entry.primary] is value
    return call.name == _PREPACK or (entry.prepares and not is_primary)


def _fitting(values: list[TensorValue], memories: Memories, profile: Profile, layouts: Set[Layout]) -> Memories:
    """Return the `memories` (pairs of storage and layout) into which all of the tensors `values` fit.

    edgecore's delegate stores every tensor in a buffer, where the layout is only the order of elements. Tensors with
    more than 4 dims are always row-major.
    """
    if not profile.is_stock:
        allowed = {_PLAIN.get(memory.layout, memory.layout) for memory in memories} & layouts
        if any(len(value.shape) > 4 for value in values):
            allowed = {W}
        return frozenset(Memory(Storage.BUFFER, layout) for layout in allowed)
    return frozenset(
        memory
        for memory in memories
        if memory.layout in layouts
        and all(
            fits_texture(value.shape, memory.layout, profile.texture_limits)
            if memory.storage == Storage.TEXTURE_3D
            else value.elements < profile.buffer_limit
            for value in values
        )
    )


def _memories(call: Call, entry: Entry) -> tuple[Memories, Memories | tuple[Memories, ...]]:
    """Return the memories (storage and layout) that an operator supports for inputs and for results.

    For reductions and dtype conversions, the memories depend on the call.
    """
    memories = entry.memories
    if call.name in _REDUCTIONS:
        memories = _reduction_memories(call)
    if call.name == "aten._to_copy.default":
        memories = ANY if {next(call.inputs()).dtype, call.output.dtype} <= FLOAT else ROW_BUFFER
    return memories, memories if entry.result_memories is None else entry.result_memories


def _reduction_memories(call: Call) -> Memories:
    """Return the memories for a reduction; if it reduces two of the three inner dims, the other is packed."""
    (source,) = call.inputs()
    rank = len(source.shape)
    dims = call.args[1] if isinstance(call.args[1], list) else [call.args[1]]
    reduced = {rank - 1 - dim % rank for dim in dims}  # counted from the innermost dim
    if len(reduced) == 1:
        return TEXTURE | ROW_BUFFER if reduced == {0} else TEXTURE
    if len(reduced) > 2:
        return frozenset()
    packed = min({0, 1, 2} - reduced)
    return frozenset({Memory(Storage.TEXTURE_3D, _LAYOUTS[packed])})
