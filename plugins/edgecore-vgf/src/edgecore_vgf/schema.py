"""Declare the flatbuffer tables in the sections of a VGF file as dataclasses, for `edgecore.sdk.flat`.

`native/schema/vgf.fbs` declares the same tables for the delegate.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from edgecore.sdk.flat import scalar, string, strings, table, tables, union, vector

NO_INDEX = 2**32 - 1
"""Value of `DescriptorSet.index` if the set's number is its position in the list."""


class Kind(IntEnum):
    """Kinds of modules and segments."""

    COMPUTE = 0
    GRAPH = 1


class Category(IntEnum):
    """Roles of resources."""

    INPUT = 0
    OUTPUT = 1
    INTERMEDIATE = 2
    CONSTANT = 3


@dataclass
class Spirv:
    """SPIR-V code."""

    words: list[int] = vector(0, "u32")


@dataclass
class Glsl:
    """GLSL code."""

    code: str = string(0)


@dataclass
class Hlsl:
    """HLSL code."""

    code: str = string(0)


@dataclass
class Module:
    """A shader or graph."""

    kind: Kind = scalar(0, "u8", enum=Kind)
    name: str = string(1)
    entry_point: str = string(2)
    code: Spirv | Glsl | Hlsl | None = union(3, {1: Spirv, 2: Glsl, 3: Hlsl})


@dataclass
class Modules:
    """The section of modules."""

    modules: list[Module] = tables(0, Module)


@dataclass
class Layout:
    """The shape of a resource in elements, and its strides, which are empty if the resource is dense."""

    shape: list[int] = vector(0, "i64")
    strides: list[int] = vector(1, "i64")


@dataclass
class Resource:
    """A resource of a VGF file: a tensor that is an input, output, intermediate value or constant."""

    descriptor_type: int = scalar(0, "u32")
    format: int = scalar(1, "u32")
    category: Category = scalar(2, "u8", enum=Category)
    layout: Layout | None = table(3, Layout)


@dataclass
class Resources:
    """The section of resources."""

    resources: list[Resource] = tables(0, Resource)


@dataclass
class Slot:
    """A binding of a descriptor set: its number, and the number of the bound resource."""

    binding: int = scalar(0, "u32")
    resource: int = scalar(1, "u32")


@dataclass
class DescriptorSet:
    """The bindings of a Vulkan descriptor set; if `index` is NO_INDEX, the set's number is its position in the list."""

    slots: list[Slot] = tables(0, Slot)
    index: int = scalar(1, "u32", NO_INDEX)


@dataclass
class Segment:
    """A part of the model that one module (shader or graph) computes."""

    kind: Kind = scalar(0, "u8", enum=Kind)
    name: str = string(1)
    module: int = scalar(2, "u32")
    descriptor_sets: list[DescriptorSet] = tables(3, DescriptorSet)
    inputs: list[Slot] = tables(4, Slot)
    outputs: list[Slot] = tables(5, Slot)
    constants: list[int] = vector(6, "u32")


@dataclass
class Sequence:
    """The section of a VGF file that lists its segments in execution order, and the model's inputs and outputs."""

    segments: list[Segment] = tables(0, Segment)
    inputs: list[Slot] = tables(1, Slot)
    outputs: list[Slot] = tables(2, Slot)
    input_names: list[str] = strings(3)
    output_names: list[str] = strings(4)
