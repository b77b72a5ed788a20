"""Passes over edge programs, each in a file of its own; the list of passes that lowering runs; the pass manager."""

from edgecore.passes.base import ExportPass, PassBase, PassResult
from edgecore.passes.convert_dim_order import convert_dim_order
from edgecore.passes.manager import PassManager
from edgecore.passes.merge_common_subexpressions import merge_common_subexpressions
from edgecore.passes.merge_views import merge_views
from edgecore.passes.narrow_integers import narrow_integers
from edgecore.passes.pass_list import NamedPass, PassContext, PassList
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.passes.proxy_value import NodeMetadata, ProxyValue, map_args
from edgecore.passes.remove_dead_code import remove_dead_code
from edgecore.passes.replace_pattern import expand_bound_operators, replace_pattern
from edgecore.passes.scalar_to_tensor import ScalarToTensorPass

__all__ = [
    "EDGE_PASSES",
    "ExportPass",
    "NamedPass",
    "NodeMetadata",
    "PassBase",
    "PassContext",
    "PassList",
    "PassManager",
    "PassResult",
    "ProxyValue",
    "ScalarToTensorPass",
    "convert_dim_order",
    "expand_bound_operators",
    "map_args",
    "merge_common_subexpressions",
    "merge_views",
    "narrow_integers",
    "remove_dead_code",
    "replace_pattern",
]
