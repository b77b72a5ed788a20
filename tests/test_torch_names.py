"""Private names of torch and torchao: only `edgecore.ir.torch_compat` uses them, so that a new torch changes one file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COMPAT = ROOT / "src/edgecore/ir/torch_compat.py"
PUBLIC = {"_check"}
"""Documented names of torch that begin with an underscore."""
PRIVATE_PATH = re.compile(r"(torch|torchao)\.([\w.]+\.)?(_(?!_)\w+|experimental|prototype)(\.[\w.]+)?")
PRIVATE_ATTRIBUTES = {
    *("_schema", "_overloadname", "_overloadpacket", "_can_decompose", "_qualified_op_name"),  # operators
    *("_graph_module", "_graph_signature", "_state_dict", "_constants", "_range_constraints", "_example_inputs"),
    *("_module_call_graph", "_verifiers", "_guards_code"),  # exported programs
    *("_codegen", "_root", "_modules", "_parameters", "_buffers", "_cdata"),  # graphs, modules, storages
}


def private_names(text: str) -> list[str]:
    """The private names of torch that a module uses; attributes of `self` are the module's own."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if PRIVATE_PATH.fullmatch(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name for name in names if PRIVATE_PATH.fullmatch(name)]
        elif isinstance(node, ast.Attribute) and node.attr not in PUBLIC:
            of, of_torch = ast.unparse(node.value), PRIVATE_PATH.fullmatch(ast.unparse(node))
            is_operator = of.startswith("torch.ops.") or not of.startswith("torch")
            if (node.attr in PRIVATE_ATTRIBUTES and of not in ("self", "cls")) or (of_torch and not is_operator):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr", "hasattr"):
            found += [
                str(arg.value)
                for arg in node.args[1:]
                if isinstance(arg, ast.Constant) and arg.value in PRIVATE_ATTRIBUTES
            ]
    return found


def test_only_one_module_uses_private_names_of_torch():
    files = [path for folder in (ROOT / "src", *ROOT.glob("plugins/*/src")) for path in folder.rglob("*.py")]
    assert len(files) > 300
    used = {path.relative_to(ROOT): private_names(path.read_text(encoding="utf-8")) for path in files if path != COMPAT}
    wrong = [f"{path}: {', '.join(names)}" for path, names in used.items() if names]
    assert not wrong, "give it a public name in edgecore.ir.torch_compat: " + "; ".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "from torch._ops import OpOverload",
        "from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols",
        "from torch.utils import _pytree as pytree",
        "def f():\n    import torchao.prototype.quantization",
        "torch._C._get_mkldnn_enabled()",
        "node.target._schema.arguments",
        "getattr(program, '_guards_code', None)",
    ],
)
def test_a_private_name_of_torch_is_noticed(text):
    assert private_names(text)


@pytest.mark.parametrize(
    "text", ["torch._check(x)", "torch.ops.aten._softmax.default", "self._root", "from torch import fx"]
)
def test_public_names_and_own_attributes_pass_the_check(text):
    assert not private_names(text)
