"""The Python interface for packages of backends, as far as it needs the compiler. Importing it imports no torch.

A package imports nothing of edgecore but `edgecore`, `edgecore.sdk`, `edgecore.plugin` (what its `__init__` and its
compiler class declare), `edgecore.errors` and, in its tests, `edgecore.conformance`. Each name is imported from its
module when it is first used. `docs/compatibility.md` says how long names live.

Partitioning: the choice of the nodes that a backend compiles.

- `OperatorTable` of `OperatorRow`s: supported operators as data, from which it makes a partitioner and documentation;
  `Constraint`: the type of a row's restrictions, of which `at_most_dims` and `contiguous_only` are common ones;
  `NodeQuery`: what restrictions ask of a node.
- `CapabilityPartitioner`: the fewest partitions, from a function that says why a node is not supported, or None:
  `UnsupportedReason` is its type.
- `Partitioner`, `PartitionResult`, `DelegationSpec`, `UnsupportedNode`, `TAG`: the protocol, for a partitioner of one's own.

Compiling a partition: `preprocess`.

- `PartitionView`: inputs, constants and outputs of a partition with the upper bounds of their shapes; `debug_handles`.
- `Constants`: read, replace and add weights.
- `Bounds`: minimum and maximum of symbolic sizes; `dim_order` of a tensor.
- `argument`, `arguments_by_name`: values of the schema arguments of a node; `for_each`: one number or one per dimension.
- `is_quantize`, `is_dequantize`, `parameters_of`: quantized patterns of the edge dialect.
- `describe`, `operator_name`, `dtype_name`: a node, an operator and a dtype in messages.

Rewriting a program: recipes of `quantize=`.

- `copy_program`, `functionalize`: an independent, functional copy of an exported program.
- `edit`, `Editor`, `calls`, `replace`, `fake_mode`: edit its graph in place, with each new node's `val`.

Options, blobs, documentation.

- `Names`: an option that holds several names; `SplitNames`: its validator, for other types of elements.
- `ByteReader`: read a blob that may be damaged. `edgecore.sdk.flat` declares and reads flatbuffers.
- `options_markdown`, `operators_markdown`: tables for a README.

Marks: `deprecated`, `experimental`.
"""

from __future__ import annotations

from edgecore.stability import deprecated, experimental, lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.ir.constants import Constants
    from edgecore.ir.dtypes import dtype_name
    from edgecore.ir.graph import Editor, calls, describe, edit, fake_mode, for_each, operator_name, replace
    from edgecore.ir.op_args import argument, arguments_by_name
    from edgecore.ir.program import copy_program
    from edgecore.ir.tensors import Bounds, dim_order
    from edgecore.partition import (
        TAG,
        CapabilityPartitioner,
        Constraint,
        DelegationSpec,
        NodeQuery,
        OperatorRow,
        OperatorTable,
        Partitioner,
        PartitionResult,
        PartitionView,
        UnsupportedNode,
        UnsupportedReason,
        at_most_dims,
        contiguous_only,
        debug_handles,
    )
    from edgecore.passes.functionalize import functionalize
    from edgecore.passes.quantized import is_dequantize, is_quantize, parameters_of
    from edgecore.plugin.byte_reader import ByteReader
    from edgecore.plugin.documentation import operators_markdown, options_markdown
    from edgecore.plugin.options import Names, SplitNames

__all__ = [
    "TAG",
    "Bounds",
    "ByteReader",
    "CapabilityPartitioner",
    "Constants",
    "Constraint",
    "DelegationSpec",
    "Editor",
    "Names",
    "NodeQuery",
    "OperatorRow",
    "OperatorTable",
    "PartitionResult",
    "PartitionView",
    "Partitioner",
    "SplitNames",
    "UnsupportedNode",
    "UnsupportedReason",
    "argument",
    "arguments_by_name",
    "at_most_dims",
    "calls",
    "contiguous_only",
    "copy_program",
    "debug_handles",
    "deprecated",
    "describe",
    "dim_order",
    "dtype_name",
    "edit",
    "experimental",
    "fake_mode",
    "for_each",
    "functionalize",
    "is_dequantize",
    "is_quantize",
    "operator_name",
    "operators_markdown",
    "options_markdown",
    "parameters_of",
    "replace",
]

_HOMES = {
    "edgecore.ir.constants": ("Constants",),
    "edgecore.ir.dtypes": ("dtype_name",),
    "edgecore.ir.graph": ("Editor", "calls", "describe", "edit", "fake_mode", "for_each", "operator_name", "replace"),
    "edgecore.ir.op_args": ("argument", "arguments_by_name"),
    "edgecore.ir.program": ("copy_program",),
    "edgecore.ir.tensors": ("Bounds", "dim_order"),
    "edgecore.partition": (
        "TAG", "CapabilityPartitioner", "Constraint", "DelegationSpec", "NodeQuery", "OperatorRow", "OperatorTable",
        "PartitionResult", "PartitionView", "Partitioner", "UnsupportedNode", "UnsupportedReason", "at_most_dims",
        "contiguous_only", "debug_handles",
    ),
    "edgecore.passes.functionalize": ("functionalize",),
    "edgecore.passes.quantized": ("is_dequantize", "is_quantize", "parameters_of"),
    "edgecore.plugin.byte_reader": ("ByteReader",),
    "edgecore.plugin.documentation": ("operators_markdown", "options_markdown"),
    "edgecore.plugin.options": ("Names", "SplitNames"),
}  # fmt: skip

__getattr__ = lazy_names("edgecore.sdk", {name: home for home, names in _HOMES.items() for name in names})


def __dir__() -> list[str]:
    """The public names, imported or not, for completion."""
    return sorted({*globals(), *__all__})
