"""`edgecore inspect`: the facts of a file as text, JSON and one HTML page."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from command_line import one_sentence

from edgecore import format as fmt


def test_inspect_prints_the_facts_as_json(edgecore, pte):
    result = edgecore("inspect", pte, "--json")
    facts = json.loads(result.out)
    (method,) = facts["methods"]
    dims = [{"name": None, "min": size, "max": size} for size in (2, 3)]
    tensor = {"name": None, "type": "tensor", "dtype": "float32", "shape": [2, 3], "dynamic": False, "dims": dims}
    assert result.status == 0
    assert facts["bytes"] == pte.stat().st_size
    assert method["name"] == "forward"
    assert method["inputs"] == method["outputs"] == [tensor]
    assert method["delegates"] == [{"backend_id": "FooBackend", "bytes": 16}]
    assert method["operators"] == {"aten::relu.out": 1}
    assert method["planned_bytes"] == 96
    assert method["delegate_bytes"] is None


def test_inspect_prints_methods_inputs_and_delegates_as_text(edgecore, pte):
    out = edgecore("inspect", pte).out
    assert "method forward" in out
    assert "input 0: float32 [2, 3]" in out
    assert re.search(r"FooBackend.*16 bytes", out)


def test_inspect_html_is_one_page_that_loads_nothing(edgecore, pte, tmp_path):
    page = tmp_path / "page.html"
    assert edgecore("inspect", pte, "--html", page).status == 0
    text = page.read_text()
    assert "aten::relu.out" in text
    assert "FooBackend" in text
    assert not re.search(r"(src|href)=|@import|url\((?!#)", text)
    assert "default-src 'none'" in text or "default-src &#39;none&#39;" in text


def test_inspect_needs_neither_torch_nor_numpy(pte):
    code = (
        "import sys; sys.argv = ['edgecore', 'inspect', sys.argv[1]]\n"
        "import atexit, edgecore.cli\n"
        "atexit.register(lambda: print([name for name in ('torch', 'numpy') if name in sys.modules]))\n"
        "edgecore.cli.main()"
    )
    result = subprocess.run([sys.executable, "-c", code, pte], capture_output=True, text=True, check=False)
    assert result.stdout.strip().endswith("[]"), result.stderr


def test_weights_in_a_ptd_file_are_inspected_and_verified(edgecore, ptd):
    facts = json.loads(edgecore("inspect", ptd, "--json").out)
    assert facts["data"] == [
        {"key": "layer.weight", "bytes": 8, "dtype": "float32", "shape": [2, 1], "dim_order": [0, 1]},
        {"key": "packed", "bytes": 3},
    ]
    text = edgecore("inspect", ptd).out
    assert "layer.weight" in text
    assert "data of a delegate" in text
    assert edgecore("verify", ptd).out == f"{ptd}: valid, follows the .ptd format\n"
    ptd.write_bytes(ptd.read_bytes()[:-1])
    one_sentence(edgecore("verify", ptd), str(ptd), "truncated")


def test_memory_is_shown_as_text_and_as_json(edgecore, pte, ptd):
    text = edgecore("inspect", pte, "--memory").out
    assert "arena 1: 96 bytes; a firmware gives 224 bytes at a multiple of 64" in text
    assert "delegates: their needs are unknown" in text
    (method,) = json.loads(edgecore("inspect", pte, "--memory", "--json").out)
    assert method["peak"]["bytes"] == max(step["bytes"] for step in method["timeline"])
    one_sentence(edgecore("inspect", pte, "--memory", "--blobs"), "leave out")
    one_sentence(edgecore("inspect", ptd, "--memory"), "only holds weights")


def test_names_in_a_file_cannot_control_the_terminal(edgecore, relu, tmp_path):
    name = "a\x1b]0;owned\x07\nb[/bold]"
    pte = fmt.read_pte(relu.read_bytes())
    pte.program.execution_plan[0].operators[0].name = name
    path = tmp_path / "hostile.pte"
    path.write_bytes(fmt.write_pte(pte))
    result = edgecore("inspect", path)
    assert result.status == 0, result.err
    assert "a\\x1b]0;owned\\x07\\nb[/bold]" in result.out
    assert result.out.replace("\n", "").isprintable()
