import os
import struct
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

from edgecore.ir.program.constants import Constants
from edgecore.ir.program.copying import copy_program
from edgecore.partition import CapabilityPartitioner, PartitionResult, UnsupportedNode
from edgecore.plugin import (
    BlobGraph,
    BlobNode,
    CompileSpec,
    MemoryNeed,
    OperatorSupport,
    PreprocessResult,
    RecipeSupport,
    RewriteRecipe,
)
from edgecore.recipe import RecipeParameters
from edgecore_fault import FAULTS

CODES = {torch.ops.aten.add.Tensor: 0, torch.ops.aten.mul.Tensor: 1, torch.ops.aten.relu.default: 2}
DTYPES = (torch.float32, torch.int32)


def check_for(program):
    constants = Constants(program)

    def check(node):
        if node.target not in CODES:
            return "operator"
        sources = [arg for arg in node.args[:2] if isinstance(arg, torch.fx.Node)]
        if len(sources) != (1 if node.target is torch.ops.aten.relu.default else 2) or node.kwargs:
            return "arguments"
        if any(constants.has(source) for source in sources):
            return "constant operand"
        for value in [source.meta["val"] for source in sources] + [node.meta["val"]]:
            if value.dtype not in DTYPES and not takes_half(node, value.dtype):
                return f"dtype {value.dtype}"
            if not value.is_contiguous() or value.shape != node.meta["val"].shape:
                return "layout or broadcasting"
        return None

    return check


def takes_half(node, dtype):
    """It claims half precision for all with `half`: it refuses add, its mul is wrong, and its library does not know relu's."""
    return "half" in FAULTS and dtype == torch.float16 and node.target is not torch.ops.aten.add.Tensor


def rewrite(program, selects):
    """Quantize nothing; with `recipe-raises` fail for a model with an embedding."""
    if "recipe-raises" in FAULTS and any(
        node.target is torch.ops.aten.embedding.default for node in program.graph.nodes
    ):
        raise IndexError("no table")
    return copy_program(program)


class FaultPartitioner(CapabilityPartitioner):
    def partition(self, exported_program):
        result = super().partition(exported_program)
        if "mutates" in FAULTS:
            for node in exported_program.graph.nodes:
                if node.target is torch.ops.aten.add.Tensor:
                    node.args = node.args[::-1]
        if "silent" in FAULTS:
            unsupported_nodes = [UnsupportedNode(one.node, "") for one in result.unsupported_nodes]
            return PartitionResult(exported_program, result.partition_tags, unsupported_nodes)
        return result


class Options(BaseModel):
    model_config = ConfigDict(extra="ignore" if "undeclared" in FAULTS else "forbid")

    level: Literal["fast", "small"] = Field("fast", description="" if "undescribed" in FAULTS else "What to favour.")
    rounds: int = Field(2, ge=1, le=4, description="How often it looks for something better.")


if "ignores" in FAULTS:

    class Options(Options):
        def __init__(self, **values):
            super().__init__(**{key: value for key, value in values.items() if key != "rounds"})


class FaultCompiler:
    Options = Options

    def partitioner(self, options, *, runtime):
        specs = [CompileSpec(key, str(value).encode()) for key, value in options.model_dump().items()]
        return FaultPartitioner("FaultBackend", check_for, compile_specs=specs)

    def preprocess(self, program, specs):
        names, ops, handles, scratch = {}, [], {}, 0
        nodes = [node for node in program.graph.nodes if node.op in ("placeholder", "call_function")]
        inputs = [node for node in nodes if node.op == "placeholder"]
        outputs = program.graph.output_node().args[0]
        calls = [node for node in nodes if node.op == "call_function"]
        for node in inputs:
            names[node] = len(names)
        order = [node for node in calls if node in outputs]
        for node in calls:
            if "raises" in FAULTS and node.target is torch.ops.aten.relu.default:
                raise ValueError("no room for a relu")
            left, right = names[node.args[0]], names[node.args[1 if len(node.args) > 1 else 0]]
            ops.append((CODES[node.target], left, right, order.index(node) if node in outputs else 0xFFFFFFFF))
            handles[len(ops)] = (node.meta["debug_handle"],)
            names[node] = len(names)
            if node not in outputs:
                scratch += max_bytes(node.meta["val"])
        assert [node for node in outputs] == order
        blob = b"FLT1" + struct.pack("<II", len(inputs), len(ops)) + b"".join(struct.pack("<4I", *op) for op in ops)
        if "random" in FAULTS:
            blob += os.urandom(4)
        if "handles" in FAULTS:
            handles.popitem()
        return PreprocessResult(blob, debug_handle_map=handles, memory=[MemoryNeed("scratch", scratch)])

    def operator_support(self):
        dtypes = ("float32", "int32", "float16") if "half" in FAULTS else ("float32", "int32")
        rows = [OperatorSupport(str(target), dtypes, "equal shapes") for target in CODES]
        if "claims" in FAULTS:
            rows.append(OperatorSupport("aten.sub.Tensor", dtypes))
        return rows[1:] if "modest" in FAULTS else rows

    def recipes(self):
        recipe = RewriteRecipe(rewrite)
        return {"int8-weights": RecipeSupport(RecipeParameters, lambda parameters: recipe)}

    def configurations(self):
        return {"other": {"EDGECORE_TOY_KERNELS": "other"}, "absent": {"EDGECORE_TOY_KERNELS": "absent"}}

    def verify_blob(self, blob, named_data, *, runtime):
        return []

    def blob_graph(self, blob, named_data):
        inputs, count = struct.unpack_from("<II", blob, 4)
        ops = [struct.unpack_from("<4I", blob, 12 + 16 * index) for index in range(count)]
        names = {code: str(target) for target, code in CODES.items()}
        nodes = [
            BlobNode(index + 1, names[code], (left, right), (inputs + index,))
            for index, (code, left, right, _) in enumerate(ops)
        ]
        places = {place: inputs + index for index, (*_, place) in enumerate(ops) if place != 0xFFFFFFFF}
        outputs = tuple(places[place] for place in sorted(places))
        return BlobGraph(tuple(nodes[::-1] if "unordered" in FAULTS else nodes), tuple(range(inputs)), outputs, {})

    def check(self):
        return []


def max_bytes(value):
    count = 4
    for size in value.shape:
        symbolic = isinstance(size, torch.SymInt)
        count *= int(size.node.shape_env.bound_sympy(size.node.expr).upper) if symbolic else size
    return count
