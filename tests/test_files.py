"""Files are written whole or not at all."""

import os
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

import edgecore
from edgecore import format as fmt
from edgecore.errors import WriteError
from edgecore.files import new_folder, write_file, write_files


def test_saving_is_all_or_nothing(tmp_path, monkeypatch):
    program = edgecore.compile(nn.Linear(8, 8).eval(), (torch.ones(2, 8),), external_data="weights")
    with pytest.raises(WriteError, match=r"cannot write .*the folder .*nowhere does not exist"):
        program.save(tmp_path / "nowhere" / "m.pte")
    with pytest.raises(WriteError, match="it is a folder"):
        program.save(tmp_path)
    (tmp_path / "m.pte").write_bytes(b"old program")
    (tmp_path / "weights.ptd").write_bytes(b"old weights")

    def full(pte, file):
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fmt, "write_pte_to", full)
    with pytest.raises(WriteError, match=r"cannot write .*m\.pte: No space left on device"):
        program.save(tmp_path / "m.pte")
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "m.pte": b"old program", "weights.ptd": b"old weights",
    }  # fmt: skip
    program.save(tmp_path / "m.pte")
    assert (tmp_path / "m.pte").read_bytes() == program.buffer


def test_an_interrupted_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "page.html"
    write_file(path, "old \N{SNOWMAN}")

    def interrupted(file):
        file.write(b"half of it")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_files({path: interrupted})
    assert list(tmp_path.iterdir()) == [path] and path.read_text(encoding="utf-8") == "old \N{SNOWMAN}"


def test_a_file_behind_a_link_is_replaced_and_the_link_stays(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/file")
    for content in ("first", "second"):
        write_file(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink() and (tmp_path / "there" / "file").read_text() == content
    assert len(list((tmp_path / "there").iterdir())) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="makes a named pipe")
def test_a_device_and_a_pipe_are_written_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    seen = []
    reader = threading.Thread(target=lambda: seen.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_file(tmp_path / "pipe", "text")
    reader.join()
    assert seen == ["text"] and (tmp_path / "pipe").is_fifo()
    write_file("/dev/null", "text")
    assert Path("/dev/null").is_char_device()


def test_a_new_folder_is_complete_or_absent(tmp_path):
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "parts") as place:
        (place / "first").write_text("1")
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with new_folder(tmp_path / "parts") as place:
        (place / "first").write_text("1")
        assert not (tmp_path / "parts").exists()
    assert [path.name for path in tmp_path.rglob("*")] == ["parts", "first"]
    with pytest.raises(WriteError, match="exists already"), new_folder(tmp_path / "parts"):
        raise AssertionError("the block must not run")
