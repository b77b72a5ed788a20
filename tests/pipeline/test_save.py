"""Saving a program writes all of its files or none."""

import pytest
import torch
from torch import nn

import edgecore
from edgecore import format as fmt
from edgecore.errors import WriteError


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
