"""Passes over edge programs, the list of passes that lowering runs, and the pass manager."""

from edgecore.passes.base import ExportPass, PassBase, PassResult
from edgecore.passes.library.convert_dim_order import convert_dim_order
from edgecore.passes.library.merge_common_subexpressions import merge_common_subexpressions
from edgecore.passes.library.merge_views import merge_views
from edgecore.passes.library.narrow_integers import narrow_integers
from edgecore.passes.library.remove_dead_code import remove_dead_code
from edgecore.passes.library.replace_pattern import expand_bound_operators, replace_pattern
from edgecore.passes.library.scalar_to_tensor import ScalarToTensorPass
from edgecore.passes.manager import PassManager
from edgecore.passes.pass_list import NamedPass, PassContext, PassList
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.passes.proxy_value import NodeMetadata, ProxyValue, map_args

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
