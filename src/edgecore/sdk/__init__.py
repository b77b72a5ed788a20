"""The Python interface for packages of backends: functions and classes of the compiler. This module imports no torch.

A backend's package imports only these modules of edgecore: `edgecore`, `edgecore.sdk`, `edgecore.plugin` (in the
`__init__.py` and the compiler class of the package), `edgecore.errors` and, in tests, `edgecore.conformance`. Each name
is imported from its module when it is first used. `docs/compatibility.md` tells how long names stay.

Partitioning: choose the nodes that the backend compiles.

- `OperatorTable` of `OperatorRow`s: the supported operators as data, from which the partitioner and the documentation
  are made.
- `Constraint`: the type of a function that restricts a row; `at_most_dims`, `contiguous_only`, `integers_of_32_bits`,
  `no_empty_tensors`, `same_ranks` and `static_sizes` are common constraints.
- `NodeQuery`: the argument of a constraint: a node, with methods that return its arguments, constants and `val`s.
- `CapabilityPartitioner`: makes few, large partitions from a function of type `UnsupportedReason`, which returns the
  reason why a node is not supported, or None.
- `Partitioner`, `PartitionResult`, `DelegationSpec`, `UnsupportedNode`, `TAG`: the protocol of partitioners.
- `LayoutReason`: the reason why a dim order is not supported. edgecore then makes the values contiguous, and asks
  again.
- `mutable_buffers`: a program's state as `MutableBuffer`s; `claimable_buffers`: the ones that a partitioner may claim.

Compiling a partition, in `preprocess`.

- `PartitionView`: inputs, constants and outputs of a partition, with the upper bounds of their shapes; `debug_handles`.
- `Constants`: read, replace and add weights; `parameter_of`: the parameter that a constant was computed from.
- `Bounds`: minimum and maximum of symbolic sizes.
- `dim_order`: the order of a tensor's dims in memory.
- `allowed_types`: the dtypes that an operator's tensors may have.
- `argument`, `arguments_by_name`: values of a node's arguments by the names in the operator's schema.
- `has_hidden_rows`: find attention masks that hide all keys of a query; `reaches_softmax`: find values that a softmax
  reads, maybe in a sum; `holds_scores`: find such values of float32, so that a backend that computes in float16 can
  clamp their finite numbers to `LARGEST_SCORE`; `without_repeated_heads`: find the keys or values that grouped-query
  attention repeats.
- `shape`, `rank`: sizes of a node's result, and their number; `axes`: dims counted from 0; `swapped_axes`: the
  permutation of a `transpose`; `pads_of_dims`: the pads of a `constant_pad_nd` by dim.
- `for_each`: expand an argument that holds one number for all dims, such as `stride`, to one number for each dim.
- `reaches_past_padding`: find poolings with `ceil_mode` whose last windows reach past the input and its padding.
- `is_quantize`, `is_dequantize`: recognize quantize and dequantize nodes; `parameters_of`: their scale and zero point.
- `describe`, `operator_name`, `dtype_name`: format a node, an operator and a dtype for messages; `module_path`: the
  qualified name of the module that a node comes from.

Recipes of `quantize=`, which rewrite a program.

- `Recipe`, `Rule`: what users write; `RecipeParameters`: the base class of a recipe's parameters.
- `edgecore.sdk.annotations`: a base class for the quantizers of PT2E quantization, functions that annotate nodes, and
  the table of the roles that operators have in quantization.
- `copy_program`, `functionalize`: make an independent, functional copy of an exported program.
- `SMALLEST_SCALE`: the smallest scale that a recipe chooses.
- `edit`, `Editor`, `calls`, `replace`, `fake_mode`: edit a graph in place, and compute the `val` of each new node.

Options, blobs, documentation.

- `Names`: type of an option that holds a list of strings; `SplitNames`: the validator of `Names`, for an option whose
  elements have another type; `validate_options`: create options from values, or raise a `ValueError` with the
  `problem_message` of each of pydantic's errors.
- `ByteReader`: read a blob that may be damaged. `edgecore.sdk.flat` declares and reads flatbuffers.
- `options_markdown`, `operators_markdown`: tables for a README.

Long work and files.

- `task`, `track`: report the progress of work that takes seconds, such as a vendor's compiler; users see a bar.
- `write_files`: write all files of a result or none, also at Ctrl-C.

Private names of torch, such as `OpOverload`: import them from `edgecore.sdk.torch_compat`, not from torch.

Decorators for functions of a package's own interface: `deprecated`, `experimental`.

Commands of `edgecore`: `edgecore.sdk.commands.takes` makes a command from a data class of its arguments.
"""

from __future__ import annotations

from edgecore.stability import public_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.files import write_files as write_files
    from edgecore.ir.dialect.dim_orders import dim_order as dim_order
    from edgecore.ir.dialect.dtype_rules import allowed_types as allowed_types
    from edgecore.ir.dialect.dtypes import dtype_name as dtype_name
    from edgecore.ir.graph import Editor as Editor
    from edgecore.ir.graph import calls as calls
    from edgecore.ir.graph import describe as describe
    from edgecore.ir.graph import edit as edit
    from edgecore.ir.graph import fake_mode as fake_mode
    from edgecore.ir.graph import for_each as for_each
    from edgecore.ir.graph import module_path as module_path
    from edgecore.ir.graph import operator_name as operator_name
    from edgecore.ir.graph import replace as replace
    from edgecore.ir.op_args import argument as argument
    from edgecore.ir.op_args import arguments_by_name as arguments_by_name
    from edgecore.ir.operators.attention import LARGEST_SCORE as LARGEST_SCORE
    from edgecore.ir.operators.attention import has_hidden_rows as has_hidden_rows
    from edgecore.ir.operators.attention import holds_scores as holds_scores
    from edgecore.ir.operators.attention import reaches_softmax as reaches_softmax
    from edgecore.ir.operators.attention import without_repeated_heads as without_repeated_heads
    from edgecore.ir.operators.pooling_windows import reaches_past_padding as reaches_past_padding
    from edgecore.ir.program.constants import Constants as Constants
    from edgecore.ir.program.constants import parameter_of as parameter_of
    from edgecore.ir.program.copying import copy_program as copy_program
    from edgecore.ir.program.mutable_state import MutableBuffer as MutableBuffer
    from edgecore.ir.program.mutable_state import mutable_buffers as mutable_buffers
    from edgecore.ir.program.symbolic_sizes import Bounds as Bounds
    from edgecore.ir.shapes import axes as axes
    from edgecore.ir.shapes import pads_of_dims as pads_of_dims
    from edgecore.ir.shapes import rank as rank
    from edgecore.ir.shapes import shape as shape
    from edgecore.ir.shapes import swapped_axes as swapped_axes
    from edgecore.partition import TAG as TAG
    from edgecore.partition import CapabilityPartitioner as CapabilityPartitioner
    from edgecore.partition import Constraint as Constraint
    from edgecore.partition import DelegationSpec as DelegationSpec
    from edgecore.partition import LayoutReason as LayoutReason
    from edgecore.partition import NodeQuery as NodeQuery
    from edgecore.partition import OperatorRow as OperatorRow
    from edgecore.partition import OperatorTable as OperatorTable
    from edgecore.partition import Partitioner as Partitioner
    from edgecore.partition import PartitionResult as PartitionResult
    from edgecore.partition import PartitionView as PartitionView
    from edgecore.partition import UnsupportedNode as UnsupportedNode
    from edgecore.partition import UnsupportedReason as UnsupportedReason
    from edgecore.partition import at_most_dims as at_most_dims
    from edgecore.partition import claimable_buffers as claimable_buffers
    from edgecore.partition import contiguous_only as contiguous_only
    from edgecore.partition import debug_handles as debug_handles
    from edgecore.partition import integers_of_32_bits as integers_of_32_bits
    from edgecore.partition import no_empty_tensors as no_empty_tensors
    from edgecore.partition import same_ranks as same_ranks
    from edgecore.partition import static_sizes as static_sizes
    from edgecore.passes.library.functionalize import functionalize as functionalize
    from edgecore.passes.quantized import SMALLEST_SCALE as SMALLEST_SCALE
    from edgecore.passes.quantized import is_dequantize as is_dequantize
    from edgecore.passes.quantized import is_quantize as is_quantize
    from edgecore.passes.quantized import parameters_of as parameters_of
    from edgecore.plugin.byte_reader import ByteReader as ByteReader
    from edgecore.plugin.documentation import operators_markdown as operators_markdown
    from edgecore.plugin.documentation import options_markdown as options_markdown
    from edgecore.plugin.options import Names as Names
    from edgecore.plugin.options import SplitNames as SplitNames
    from edgecore.plugin.options import validate_options as validate_options
    from edgecore.progress import task as task
    from edgecore.progress import track as track
    from edgecore.recipe import Recipe as Recipe
    from edgecore.recipe import RecipeParameters as RecipeParameters
    from edgecore.recipe import Rule as Rule
    from edgecore.recipe import problem_message as problem_message
    from edgecore.stability import deprecated as deprecated
    from edgecore.stability import experimental as experimental

__all__, __getattr__ = public_names(
    "edgecore.sdk",
    {
        "edgecore.files": "write_files",
        "edgecore.ir.dialect.dim_orders": "dim_order",
        "edgecore.ir.dialect.dtype_rules": "allowed_types",
        "edgecore.ir.dialect.dtypes": "dtype_name",
        "edgecore.ir.graph": "Editor calls describe edit fake_mode for_each module_path operator_name replace",
        "edgecore.ir.op_args": "argument arguments_by_name",
        "edgecore.ir.operators.attention": (
            "LARGEST_SCORE has_hidden_rows holds_scores reaches_softmax without_repeated_heads"
        ),
        "edgecore.ir.operators.pooling_windows": "reaches_past_padding",
        "edgecore.ir.program.constants": "Constants parameter_of",
        "edgecore.ir.program.copying": "copy_program",
        "edgecore.ir.program.mutable_state": "MutableBuffer mutable_buffers",
        "edgecore.ir.program.symbolic_sizes": "Bounds",
        "edgecore.ir.shapes": "axes pads_of_dims rank shape swapped_axes",
        "edgecore.partition": (
            "CapabilityPartitioner Constraint DelegationSpec LayoutReason NodeQuery OperatorRow OperatorTable "
            "PartitionResult PartitionView Partitioner TAG UnsupportedNode UnsupportedReason at_most_dims "
            "claimable_buffers contiguous_only debug_handles integers_of_32_bits no_empty_tensors same_ranks "
            "static_sizes"
        ),
        "edgecore.passes.library.functionalize": "functionalize",
        "edgecore.passes.quantized": "SMALLEST_SCALE is_dequantize is_quantize parameters_of",
        "edgecore.plugin.byte_reader": "ByteReader",
        "edgecore.plugin.documentation": "operators_markdown options_markdown",
        "edgecore.plugin.options": "Names SplitNames validate_options",
        "edgecore.progress": "task track",
        "edgecore.recipe": "Recipe RecipeParameters Rule problem_message",
        "edgecore.stability": "deprecated experimental",
    },
)


def __dir__() -> list[str]:
    """Return the names of this module, for completion in editors. A name in `__all__` is imported at its first use."""
    return sorted({*globals(), *__all__})
