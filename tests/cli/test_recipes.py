"""`edgecore compile -q`: recipes with parameters, for several backends, and from a file."""

from __future__ import annotations

import json

import pytest

from edgecore.cli.recipes import parse_quantize
from edgecore.errors import CompileError

pytest.importorskip("pydantic")
from edgecore.recipe import Recipe, Rule

MODEL = """
import torch

def net():
    torch.manual_seed(0)
    model = torch.nn.Sequential()
    model.body, model.head = torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)
    return model.eval(), (torch.ones(2, 64),)
"""


@pytest.mark.parametrize(
    ("texts", "want"),
    [
        (["int8"], Recipe("int8")),
        (
            ["int4-weights:group=64,skip=head+layers.0.*,embeddings=8"],
            Recipe("int4-weights", group=64, skip=["head", "layers.0.*"], embeddings=8),
        ),
        (["int8:symmetric=true,observer=minmax"], Recipe("int8", symmetric=True, observer="minmax")),
        (
            ["xnnpack=int4-weights:group=64", "openvino=int8"],
            {"xnnpack": Recipe("int4-weights", group=64), "openvino": Recipe("int8")},
        ),
    ],
    ids=["name", "parameters", "values", "backends"],
)
def test_a_text_becomes_the_recipe(texts, want):
    assert parse_quantize(texts) == want


def test_a_file_holds_a_recipe_with_rules_or_one_for_each_backend(tmp_path):
    one, several = tmp_path / "one.yaml", tmp_path / "several.yml"
    one.write_text("""
name: int4-weights
group: 64
skip: [head]
rules:
  - module: layers.0.*
    recipe: int8-dynamic
  - type: Embedding
    recipe: {name: int8-weights, embeddings: 8}
""")
    want = Recipe(
        "int4-weights",
        group=64,
        skip=["head"],
        rules=[
            Rule(module="layers.0.*", recipe="int8-dynamic"),
            Rule(type="Embedding", recipe=Recipe("int8-weights", embeddings=8)),
        ],
    )
    assert parse_quantize([str(one)]) == want
    several.write_text("xnnpack:\n  name: int4-weights\nopenvino:\n  name: int8\n  weights: tensor\n")
    both = {"xnnpack": Recipe("int4-weights"), "openvino": Recipe("int8", weights="tensor")}
    assert parse_quantize([str(several)]) == both


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["int4-weights:group"], r"'int4-weights:group' is not \[BACKEND=\]NAME\[:key=value,...\]"),
        (["int3"], "no recipe 'int3'; the recipes are int8"),
        (["int8", "fp16"], "has several recipes; name the backend of each"),
        (["int8", "xnnpack=fp16"], "has several recipes; name the backend of each"),
        (["xnnpack=int8", "xnnpack=fp16"], "two recipes for backend 'xnnpack'"),
        (["/nowhere/recipe.yaml"], "recipe.yaml cannot be read as a YAML file: .*No such file"),
        (["wrong.yaml"], "cannot be read as a YAML file: "),
        (["list.yaml"], "list.yaml holds no mapping, such as 'name: int8'"),
        (["nameless.yaml"], "nameless.yaml needs the key 'name' with a recipe, at the top or for each backend"),
        (["rule.yaml"], "no recipe None"),
        (["number.yaml"], "number.yaml has a key that is no text"),
    ],
    ids=lambda value: "",
)
def test_what_is_no_recipe_is_explained(texts, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.yaml").write_text("name: [")
    (tmp_path / "number.yaml").write_text("name: int8\n1: x\n")
    (tmp_path / "list.yaml").write_text("- int8")
    (tmp_path / "nameless.yaml").write_text("group: 32")
    (tmp_path / "rule.yaml").write_text("name: int8\nrules:\n  - module: head\n    recipe: {group: 32}\n")
    with pytest.raises(CompileError, match=message):
        parse_quantize(texts)


def test_the_command_line_quantizes_with_parameters_and_rules(edgecore, module):
    pytest.importorskip("edgecore_xnnpack")
    module(MODEL)
    arguments = ["compile", "my_model_file:net", "-b", "xnnpack", "--report", "a.html", "--json"]
    result = edgecore(*arguments, "-q", "int4-weights:group=64,skip=head")
    assert result.status == 0, result.err
    schemes = {row["module"]: row["scheme"] for row in json.loads(result.out)["quantization"]}
    assert schemes == {
        "body": "inputs int8 per row at run time, weights int4 in groups of 64",
        "head": "float32 by rule module='head'",
    }
