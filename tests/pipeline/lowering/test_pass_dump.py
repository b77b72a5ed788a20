"""Dumps of the graph after each pass that changed it."""

import pytest
from edge_programs import INPUTS, net

import edgecore
from edgecore.errors import WriteError


def test_a_dump_has_the_graph_after_each_pass_that_changed_it(tmp_path):
    edgecore.compile(net(), INPUTS, dump_passes=tmp_path / "graphs")
    files = sorted(path.name for path in (tmp_path / "graphs").iterdir())
    assert files[0] == "00-exported.txt"
    assert any(name.endswith("-fuse_batch_norm.txt") for name in files)
    assert not any("claim_constants" in name for name in files)
    fused = next(path for path in (tmp_path / "graphs").iterdir() if "fuse_batch_norm" in path.name).read_text()
    assert "float32[1, 3, 3, 3] = aten.convolution.default(%x, " in fused
    assert "batch_norm_legit" not in fused and "edge_programs.py:" in fused
    assert "parameter conv.weight" in (tmp_path / "graphs" / "00-exported.txt").read_text()


def test_a_dump_of_several_methods_has_a_folder_for_each(tmp_path):
    edgecore.compile({"one": net(), "two": net()}, {"one": INPUTS, "two": INPUTS}, dump_passes=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
    assert (tmp_path / "two" / "00-exported.txt").is_file()


def test_a_folder_that_cannot_take_a_dump_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="cannot dump passes to .*file: "):
        edgecore.compile(net(), INPUTS, dump_passes=tmp_path / "file")
    with pytest.raises(WriteError, match="the folder is not empty; choose a new one"):
        edgecore.compile(net(), INPUTS, dump_passes=tmp_path)
