from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from edgecore.cli.common import hold_stderr, random_tensor
from edgecore.cli.compile import parse_backend
from edgecore.errors import EdgecoreError, FallbackWarning


def one_sentence(result, *parts):
    """Failed, and said why in one line of ours on stderr."""
    lines = result.err.strip().splitlines()
    assert result.status == 1
    assert len(lines) == 1, result.err
    assert lines[0].startswith("edgecore: ")
    assert all(part in lines[0] for part in parts), lines[0]


def test_inspect_json(edgecore, pte):
    result = edgecore("inspect", pte, "--json")
    facts = json.loads(result.out)
    (method,) = facts["methods"]
    dims = [{"name": None, "min": size, "max": size} for size in (2, 3)]
    tensor = {"name": None, "type": "tensor", "dtype": "float32", "shape": [2, 3], "dynamic": False, "dims": dims}
    assert result.status == 0
    assert facts["bytes"] == pte.stat().st_size
    assert method["name"] == "forward"
    assert method["inputs"] == method["outputs"] == [tensor]
    assert method["delegates"] == [{"backend_id": "QnnBackend", "bytes": 16}]
    assert method["operators"] == {"aten::relu.out": 1}
    assert method["planned_bytes"] == 96
    assert method["delegate_bytes"] is None


def test_inspect_text(edgecore, pte):
    out = edgecore("inspect", pte).out
    assert "method forward" in out
    assert "input 0: float32 [2, 3]" in out
    assert re.search(r"QnnBackend.*16 bytes", out)


def test_inspect_html_is_one_page_that_loads_nothing(edgecore, pte, tmp_path):
    page = tmp_path / "page.html"
    assert edgecore("inspect", pte, "--html", page).status == 0
    text = page.read_text()
    assert "aten::relu.out" in text
    assert "QnnBackend" in text
    assert not re.search(r"(src|href)=|@import|url\(", text)


def test_inspect_needs_neither_torch_nor_numpy(pte):
    code = (
        "import sys; sys.argv = ['edgecore', 'inspect', sys.argv[1]]\n"
        "import atexit, edgecore.cli\n"
        "atexit.register(lambda: print([name for name in ('torch', 'numpy') if name in sys.modules]))\n"
        "edgecore.cli.main()"
    )
    result = subprocess.run([sys.executable, "-c", code, pte], capture_output=True, text=True, check=False)
    assert result.stdout.strip().endswith("[]"), result.stderr


def test_verify_sound_file(edgecore, pte):
    result = edgecore("verify", pte, "--runtime", "edgecore")
    assert result.status == 0, result.out + result.err
    assert "valid, follows the rules of edgecore" in result.out
    assert "the blobs of QnnBackend are not checked" in result.err
    assert "no package is known for it" in result.err


def test_verify_unknown_profile_is_wrong_usage(edgecore, pte):
    assert edgecore("verify", pte, "--runtime", "executorch-9").status == 2


@pytest.mark.parametrize("command", ["inspect", "verify", "run", "bench"])
class TestFilesThatCannotBeRead:
    def test_absent(self, edgecore, tmp_path, command):
        one_sentence(edgecore(command, tmp_path / "no.pte"), "no.pte: No such file or directory")

    def test_of_another_kind(self, edgecore, tmp_path, command):
        path = tmp_path / "cat.pte"
        path.write_bytes(b"\x89PNG\r\n\x1a\n" * 8)
        one_sentence(edgecore(command, path), "cat.pte", "not a .pte file")

    def test_a_folder(self, edgecore, tmp_path, command):
        one_sentence(edgecore(command, tmp_path), str(tmp_path))

    def test_truncated(self, edgecore, pte, command):
        pte.write_bytes(pte.read_bytes()[:-20])
        one_sentence(edgecore(command, pte), "model.pte", "truncated")

    def test_with_a_flipped_bit_in_the_header(self, edgecore, pte, command):
        data = bytearray(pte.read_bytes())
        data[10] ^= 4  # in the identifier of the extended header
        pte.write_bytes(data)
        one_sentence(edgecore(command, pte), "model.pte", "segment")

    def test_empty(self, edgecore, tmp_path, command):
        (tmp_path / "empty.pte").touch()
        one_sentence(edgecore(command, tmp_path / "empty.pte"), "empty.pte")


def test_traceback_only_with_debug(edgecore, tmp_path):
    assert "Traceback" not in edgecore("inspect", tmp_path / "no.pte").err
    for line in (["--debug", "inspect", "no.pte"], ["inspect", "no.pte", "--debug"]):
        result = edgecore(*line)
        assert "Traceback" in result.err
        assert result.err.strip().splitlines()[-1] == "edgecore: no.pte: No such file or directory"
        assert result.status == 1


@pytest.mark.parametrize("line", [["run"], ["bench", "x.pte", "--runs", "0"], ["frobnicate"], ["run", "--frob"]])
def test_wrong_usage(edgecore, line):
    assert edgecore(*line).status == 2


def test_version(edgecore):
    result = edgecore("--version")
    assert result.status == 0
    assert re.fullmatch(r"edgecore \d+\.\d+\.\d+\S*\n", result.out)


def test_help_names_every_command(edgecore):
    out = edgecore("--help").out
    for command in ("compile", "run", "bench", "inspect", "verify", "backends", "doctor"):
        assert command in out


def test_manifests_go_with_nothing_else(edgecore, tmp_path):
    result = edgecore("backends", "fake", "--manifests", tmp_path / "made")
    assert result.status == 1 and "cannot be combined" in result.err
    assert not (tmp_path / "made").exists()


def test_backends_json(edgecore):
    result = edgecore("backends", "--json")
    assert result.status == 0
    for row in json.loads(result.out):
        assert row["state"] in ("ok", "broken", "disabled")
        assert {"backend_id", "name", "distribution", "version", "summary", "problem", "ambiguous"} <= row.keys()
        # What edgecore-run takes as --backend.
        assert row["state"] != "ok" or row["library"] is None or Path(row["library"]).is_file()


def test_doctor_of_a_backend_that_is_not_installed(edgecore):
    one_sentence(edgecore("doctor", "qnn"), "no package is known for it")


class TestModelArgumentOfCompile:
    def test_absent_file(self, edgecore):
        one_sentence(edgecore("compile", "no.pt2"), "no.pt2 does not exist")

    def test_file_of_another_kind(self, edgecore, tmp_path):
        (tmp_path / "bad.pt2").write_bytes(b"nothing")
        result = edgecore("compile", tmp_path / "bad.pt2")
        assert result.status == 1
        assert "bad.pt2 was not written by torch.export.save" in result.err.splitlines()[-1]

    def test_absent_module(self, edgecore):
        one_sentence(edgecore("compile", "no_such_module:model"), "cannot import 'no_such_module'")

    def test_module_that_does_not_import(self, edgecore, module):
        module("import no_such_module")
        one_sentence(edgecore("compile", "my_model_file:model"), "ModuleNotFoundError", "'no_such_module'")
        module("def model(:")
        one_sentence(edgecore("compile", "my_model_file:model"), "SyntaxError", "line 1")

    def test_function_that_raises(self, edgecore, module):
        module("def model(): raise OSError('no weights in w.bin\\nsecond line')")
        one_sentence(edgecore("compile", "my_model_file:model"), "my_model_file:model failed", "no weights in w.bin")

    def test_absent_function(self, edgecore):
        one_sentence(edgecore("compile", "json:model"), "module 'json'", "has no function 'model'")

    def test_function_that_gives_something_else(self, edgecore, module):
        module("def model(): return 42")
        one_sentence(
            edgecore("compile", "my_model_file:model"), "must return (model, example_inputs[, dynamic_shapes])"
        )

    def test_neither(self, edgecore):
        assert edgecore("compile", "model").status == 2


def test_warnings_of_edgecore_are_sentences_and_those_of_others_are_as_ever(capsys):
    with pytest.warns(UserWarning, match="something else") as caught, hold_stderr():
        warnings.warn("it runs on the kernels instead", FallbackWarning, stacklevel=1)
        warnings.warn("something else", UserWarning, stacklevel=1)
    assert len(caught) == 1
    assert capsys.readouterr().err == "edgecore: warning: it runs on the kernels instead\n"


def test_backend_options():
    assert parse_backend("xnnpack") == ("xnnpack", {})
    assert parse_backend("qnn:soc=SM8650,required=true,level=3") == (
        "qnn",
        {"soc": "SM8650", "required": True, "level": 3},
    )


def test_random_inputs_are_the_same_every_time():
    first, second = (random_tensor((2, 3), "float32", 0).tolist() for _ in range(2))
    assert first == second
    assert all(-1 <= value < 1 for row in first for value in row)
    assert {value for row in random_tensor((4, 8), "int64", 1).tolist() for value in row} == {0, 1}
    assert random_tensor((), "bool", 0).shape == ()
    with pytest.raises(EdgecoreError, match="float16"):
        random_tensor((1,), "float16", 0)
