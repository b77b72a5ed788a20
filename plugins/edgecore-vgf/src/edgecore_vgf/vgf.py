"""Read a VGF file, which is the blob of a delegate: a SPIR-V graph with its constants, inputs and outputs.

The file begins with a header of 128 bytes, whose numbers are little-endian:

    4   "VGF1"
    2   version of the Vulkan headers of the converter, then 2 zeros
    3   version of the format, then 5 zeros
    64  offset and size (u64 each) of the sections modules, sequence, resources, constants; 48 zeros follow

The first three sections are flatbuffers, see `schema.py`. The section of constants is "CONST00" and a zero byte, the
u64 number of constants, 24 bytes per constant (u32 resource, i32 sparse dim or -1, u64 size, u64 offset), and the data,
to which the offsets are relative.

`native/src/vgf.cpp` reads the format in C++.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from edgecore.errors import FormatError
from edgecore.sdk import ByteReader, flat
from edgecore_vgf.schema import NO_INDEX, Category, Kind, Modules, Resource, Resources, Segment, Sequence, Slot, Spirv

T = TypeVar("T")

MAGIC = b"VGF1"
VERSIONS = ((0, 4), (0, 5))
TENSOR_DESCRIPTOR = 1000460000
"""The VkDescriptorType of tensors."""

FORMATS = {
    14: ("int8", 1),
    75: ("int16", 2),
    76: ("float16", 2),
    99: ("int32", 4),
    100: ("float32", 4),
    111: ("int64", 8),
    1000460000: ("bool", 1),
}
"""Maps a VkFormat to (dtype, bytes per element)."""

_HEADER_BYTES = 128
_ALIGNMENT = 8
_MAX_SETS, _MAX_BINDINGS, _MAX_RANK, _MAX_BYTES = 8, 4096, 6, 2**40
_SPIRV_MAGIC = 0x07230203
_CONSTANTS_MAGIC = b"CONST00\0"
_CONSTANT = struct.Struct("<IiQQ")


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of a VGF file.

    Attributes:
        dtype: Name of the element type, such as "int8".
        shape: Sizes of the dims.
        size: Size in bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    size: int

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Vgf:
    """The content of a VGF file with a single graph.

    Attributes:
        version: Version of the format, such as `0.5.0`.
        entry_point: Name of the graph in the SPIR-V code.
        code_size: Size of the SPIR-V code in bytes.
        inputs: The inputs of the graph, in the order of the delegate's arguments.
        outputs: The outputs of the graph.
        constants: The constants of the graph, in the order of their numbers in the SPIR-V code.
    """

    version: str
    entry_point: str
    code_size: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    constants: tuple[TensorInfo, ...]


def read_vgf(blob: bytes) -> Vgf:
    """Read a VGF file, and check its offsets and numbers, but not the SPIR-V code, which the driver checks.

    Raises:
        FormatError: The file is damaged, or has parts that the delegate does not support.
    """
    version, (modules, sequence, resources, constants) = _sections(blob)
    table = flat.unpack(Resources, resources).resources
    order = flat.unpack(Sequence, sequence)
    if len(order.segments) != 1:
        raise FormatError(f"the VGF file has {len(order.segments)} segments, and edgecore-vgf runs one")
    (segment,) = order.segments
    module = _at(flat.unpack(Modules, modules).modules, segment.module, "module")
    if segment.kind != Kind.GRAPH or module.kind != Kind.GRAPH:
        raise FormatError("the VGF file has a compute shader, and edgecore-vgf runs graphs")
    words = module.code.words if isinstance(module.code, Spirv) else []
    if words[:1] != [_SPIRV_MAGIC] or not module.entry_point:
        raise FormatError("the blob is damaged: its module has no SPIR-V or no entry point")
    places = _places(segment)
    inputs = _arguments(order.inputs, table, places, Category.INPUT)
    outputs = _arguments(order.outputs, table, places, Category.OUTPUT)
    count = len(inputs) + len({slot.resource for slot in order.outputs})  # equal results share a tensor
    if count != len(places):
        raise FormatError(f"the blob is damaged: it has {len(places)} descriptors for {count} arguments")
    stored = _constants(constants, table)
    used = tuple(_at(stored, index, "constant") for index in segment.constants)
    return Vgf(version, module.entry_point, 4 * len(words), inputs, outputs, used)


def describe_vgf(blob: bytes) -> list[str]:
    """Describe a VGF file in lines: its graph, inputs, outputs and constants.

    Raises:
        FormatError: The file is damaged.
    """
    vgf = read_vgf(blob)
    lines = [f"VGF {vgf.version}, graph {vgf.entry_point}: {vgf.code_size:,} bytes of SPIR-V"]
    for kind, tensors in (("input", vgf.inputs), ("output", vgf.outputs), ("constant", vgf.constants)):
        lines += [f"{kind} {index}: {tensor}, {tensor.size:,} bytes" for index, tensor in enumerate(tensors)]
    return lines


def _sections(blob: bytes) -> tuple[str, list[memoryview]]:
    reader = ByteReader(blob)
    if len(blob) < _HEADER_BYTES or reader.take(4) != MAGIC:
        raise FormatError("the blob is no VGF file")
    reader.number()
    version = tuple(reader.take(8)[:3])
    text = ".".join(map(str, version))
    if version[:2] not in VERSIONS:
        raise FormatError(
            f"the blob is a VGF file of version {text}, and this edgecore-vgf reads 0.4 and 0.5: install the release "
            "that compiled it"
        )
    sections = []
    for _ in range(4):
        offset, size = reader.number(8), reader.number(8)
        if offset % _ALIGNMENT or offset < _HEADER_BYTES or offset + size > len(blob):
            raise FormatError(
                f"the blob is damaged: a section of {size} bytes at {offset} is outside of its {len(blob)} bytes"
            )
        sections.append(reader.part(offset, size))
    return text, sections


def _at(items: list[T], index: int, name: str) -> T:
    if index >= len(items):
        raise FormatError(f"the blob is damaged: it has no {name} with the number {index}")
    return items[index]


def _tensor(resource: Resource, number: int) -> TensorInfo:
    if resource.format not in FORMATS:
        raise FormatError(f"the VGF file has a tensor of the VkFormat {resource.format}")
    if resource.layout is None:
        raise FormatError(f"the blob is damaged: the resource {number} has no shape")
    if resource.layout.strides:
        raise FormatError("the VGF file has a tensor with strides")
    shape = tuple(resource.layout.shape)
    dtype, element = FORMATS[resource.format]
    if len(shape) > _MAX_RANK or any(size < 1 for size in shape) or element * prod(shape) > _MAX_BYTES:
        raise FormatError(f"the blob is damaged: the resource {number} has the shape {list(shape)}")
    return TensorInfo(dtype, shape, element * prod(shape))


def _places(segment: Segment) -> set[int]:
    """Return the numbers of the resources that descriptors bind; equal descriptors (of equal results) count once."""
    resources: set[int] = set()
    bindings: set[tuple[int, int]] = set()
    known: set[tuple[int, int, int]] = set()
    for position, descriptors in enumerate(segment.descriptor_sets):
        number = position if descriptors.index == NO_INDEX else descriptors.index
        for slot in descriptors.slots:
            if number >= _MAX_SETS or slot.binding >= _MAX_BINDINGS:
                raise FormatError(
                    f"the blob is damaged: a descriptor has the set {number} and the binding {slot.binding}"
                )
            if (number, slot.binding, slot.resource) in known:
                continue
            if slot.resource in resources or (number, slot.binding) in bindings:
                raise FormatError(
                    f"the blob is damaged: two descriptors have the resource {slot.resource}, or the binding "
                    f"{slot.binding} of set {number}"
                )
            known.add((number, slot.binding, slot.resource))
            resources.add(slot.resource)
            bindings.add((number, slot.binding))
    return resources


def _arguments(
    slots: list[Slot], resources: list[Resource], places: set[int], category: Category
) -> tuple[TensorInfo, ...]:
    arguments: list[TensorInfo] = []
    for slot in slots:
        resource = _at(resources, slot.resource, "resource")
        if resource.category != category or resource.descriptor_type != TENSOR_DESCRIPTOR:
            raise FormatError(f"the blob is damaged: the resource {slot.resource} is no {category.name.lower()} tensor")
        if slot.resource not in places:
            raise FormatError(
                f"the graph of the VGF file does not compute output {len(arguments)}: the converter takes it for a "
                "copy of an input"
                if category == Category.OUTPUT
                else f"the blob is damaged: the resource {slot.resource} has no descriptor"
            )
        arguments.append(_tensor(resource, slot.resource))
    return tuple(arguments)


def _constants(section: memoryview, resources: list[Resource]) -> list[TensorInfo]:
    if not len(section):
        return []
    reader = ByteReader(section)
    if len(section) < len(_CONSTANTS_MAGIC) + 8 or reader.take(len(_CONSTANTS_MAGIC)) != _CONSTANTS_MAGIC:
        raise FormatError("the blob is damaged: its section of constants has an unknown format")
    count = reader.number(8)
    if count > reader.left // _CONSTANT.size:
        raise FormatError(f"the blob is damaged: it has {count} constants")
    data = reader.left - count * _CONSTANT.size
    constants = []
    for index in range(count):
        number, sparse_dim, size, offset = _CONSTANT.unpack(reader.take(_CONSTANT.size))
        if sparse_dim != -1:
            raise FormatError("the VGF file has a sparse constant")
        resource = _at(resources, number, "resource")
        tensor = _tensor(resource, number)
        if resource.category != Category.CONSTANT or size != tensor.size or offset + size > data:
            raise FormatError(
                f"the blob is damaged: the constant {index} lies outside of its section, or is no constant of {size} "
                "bytes"
            )
        constants.append(tensor)
    return constants
