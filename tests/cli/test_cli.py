"""All commands of `edgecore`: files that cannot be read, wrong usage, help and version."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from command_line import one_sentence


@pytest.mark.parametrize("command", ["inspect", "verify", "run", "bench"])
class TestFilesThatCannotBeRead:
    def test_an_absent_file_is_reported_with_its_name(self, edgecore, tmp_path, command):
        one_sentence(edgecore(command, tmp_path / "no.pte"), "no.pte: No such file or directory")

    def test_a_file_of_another_kind_is_reported_as_no_pte_file(self, edgecore, tmp_path, command):
        path = tmp_path / "cat.pte"
        path.write_bytes(b"\x89PNG\r\n\x1a\n" * 8)
        one_sentence(edgecore(command, path), "cat.pte", "not a .pte file")

    def test_a_folder_instead_of_a_file_is_reported_with_its_path(self, edgecore, tmp_path, command):
        one_sentence(edgecore(command, tmp_path), str(tmp_path))

    def test_a_truncated_file_is_reported_as_truncated(self, edgecore, pte, command):
        pte.write_bytes(pte.read_bytes()[:-20])
        one_sentence(edgecore(command, pte), "model.pte", "truncated")

    def test_a_flipped_bit_in_the_header_is_reported(self, edgecore, pte, command):
        data = bytearray(pte.read_bytes())
        data[10] ^= 4  # in the identifier of the extended header
        pte.write_bytes(data)
        one_sentence(edgecore(command, pte), "model.pte", "segment")

    def test_an_empty_file_is_reported_with_its_name(self, edgecore, tmp_path, command):
        (tmp_path / "empty.pte").touch()
        one_sentence(edgecore(command, tmp_path / "empty.pte"), "empty.pte")


def test_a_traceback_is_printed_with_the_option_debug_only(edgecore, tmp_path):
    assert "Traceback" not in edgecore("inspect", tmp_path / "no.pte").err
    for line in (["--debug", "inspect", "no.pte"], ["inspect", "no.pte", "--debug"]):
        result = edgecore(*line)
        assert "Traceback" in result.err
        assert result.err.strip().splitlines()[-1] == "edgecore: no.pte: No such file or directory"
        assert result.status == 1


@pytest.mark.parametrize("line", [["run"], ["bench", "x.pte", "--runs", "0"], ["frobnicate"], ["run", "--frob"]])
def test_wrong_usage_exits_with_status_2(edgecore, line):
    assert edgecore(*line).status == 2


def test_the_option_version_prints_the_version(edgecore):
    result = edgecore("--version")
    assert result.status == 0
    assert re.fullmatch(r"edgecore \d+\.\d+\.\d+\S*\n", result.out)


SECTIONS = {
    "Compile and run": "compile run bench bundle",
    "Look into a file": "inspect graph profile compare diff verify extract",
    "Choose and keep figures": "search sweep budget track",
    "Backends and kernels": "backends doctor new-backend conformance kernels",
}


def test_help_has_the_commands_in_sections_in_the_order_of_need(edgecore):
    parts = [part.splitlines() for part in edgecore("--help").out.strip("\n").split("\n\n")]
    shown = {head: [line.split()[0] for line in lines if line[2] != " "] for head, *lines in parts}
    shown.pop("Commands of installed packages:", None)
    assert list(shown)[-4:] == [f"{title}:" for title in SECTIONS]
    for title, names in SECTIONS.items():
        assert shown[f"{title}:"] == names.split()


@pytest.mark.parametrize("command", [["graph"], ["inspect"], ["inspect", "--json"], ["verify"]], ids=" ".join)
def test_a_closed_pipe_ends_a_command_without_a_message(command, relu):
    call = [sys.executable, "-m", "edgecore", *command, relu]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()  # as `head` does, only sooner
        assert process.stderr.read() == b""
        assert process.wait() == 1
