"""How files become memory: the load modes, and files that change or vanish while they are loaded piece by piece."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

import edgecore
from edgecore import format as fmt
from edgecore._runtime import open_program
from edgecore.errors import ExecutionError, FormatError

np = pytest.importorskip("numpy")
MODES = ("file", "mmap", "mmap_use_mlock", "mmap_use_mlock_ignore_errors", "mmap_use_madvise")
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    """A linear layer with its weights in the `.pte`, the same with a `.ptd`, and the result for X."""
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("linear")
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2).eval()
    inputs = (torch.ones(2, 3),)
    edgecore.compile(model, inputs, backends=[]).save(folder / "whole.pte")
    edgecore.compile(model, inputs, backends=[], external_data="weights").save(folder / "split.pte")
    return folder, model(torch.from_numpy(X)).detach().numpy()


@pytest.mark.parametrize("mode", MODES)
def test_a_program_runs_in_each_mode(linear, toy_program, toy_package, mode):
    folder, expected = linear
    whole = edgecore.load(folder / "whole.pte", load_mode=mode)
    np.testing.assert_allclose(whole.forward(X), expected, rtol=1e-6)
    split = edgecore.load(folder / "split.pte", data=folder / "weights.ptd", load_mode=mode)
    np.testing.assert_allclose(split.forward(X), expected, rtol=1e-6)
    np.testing.assert_allclose(split.new_session().forward(X), expected, rtol=1e-6)
    np.testing.assert_array_equal(edgecore.load(toy_program, load_mode=mode).forward(X), X + 1)
    np.testing.assert_allclose(
        edgecore.load(folder / "whole.pte", load_mode=mode, verify=True).forward(X), expected, rtol=1e-6
    )


def test_an_unknown_mode_is_refused_with_the_known_ones(programs):
    with pytest.raises(ExecutionError, match="no load mode 'mapped'; there are 'file', 'mmap', 'mmap_use_mlock', "):
        edgecore.load(programs["add"], load_mode="mapped")
    with pytest.raises(UnicodeEncodeError):
        edgecore.load(programs["add"], load_mode="\udc80")


@pytest.mark.parametrize("mode", MODES)
def test_a_constant_without_elements_is_loaded(tmp_path, mode):
    torch = pytest.importorskip("torch")

    class Append(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("nothing", torch.zeros(0, 3))

        def forward(self, x):
            return torch.cat([x, self.nothing])

    edgecore.compile(Append().eval(), (torch.ones(2, 3),), backends=[]).save(tmp_path / "empty.pte")
    np.testing.assert_array_equal(edgecore.load(tmp_path / "empty.pte", load_mode=mode).forward(X), X)


def locked_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmLck:")[2].split()[0]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell how much is locked")
def test_constants_stay_locked_as_long_as_the_program_uses_them(tmp_path):
    torch = pytest.importorskip("torch")
    path, before = tmp_path / "model.pte", locked_bytes()
    edgecore.compile(torch.nn.Linear(512, 512).eval(), (torch.ones(1, 512),), backends=[]).save(path)
    program = edgecore.load(path, load_mode="mmap_use_mlock_ignore_errors")
    loaded = locked_bytes() - before
    if loaded == 0:
        pytest.skip("this process may not lock a megabyte (ulimit -l)")
    assert loaded >= 1 << 20
    again = edgecore.load(path, load_mode="mmap_use_mlock_ignore_errors", verify=True)
    assert locked_bytes() - before >= 2 * loaded - 8192
    del program, again
    gc.collect()
    assert locked_bytes() == before


@pytest.mark.parametrize("mode", MODES)
def test_every_truncation_is_refused_in_each_mode(programs, tmp_path, mode):
    data = programs["add"].read_bytes()
    for size in range(0, len(data), 97):
        (tmp_path / "short.pte").write_bytes(data[:size])
        with pytest.raises((FormatError, ExecutionError), match="short.pte"):
            edgecore.load(tmp_path / "short.pte", load_mode=mode)


def test_a_file_read_by_pieces_may_be_overwritten_after_it_is_loaded(linear, tmp_path):
    folder, expected = linear
    path = tmp_path / "model.pte"
    path.write_bytes((folder / "whole.pte").read_bytes())
    model = edgecore.load(path, load_mode="file")
    os.truncate(path, 0)  # a mapping of it would end the process
    np.testing.assert_allclose(model.forward(X), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: os.truncate(path, 100), "model.pte was truncated while it was loaded: it has 100 bytes, and had"),
        (lambda path: os.truncate(path, 1 << 20), "model.pte has grown while it was loaded: it has 1048576 bytes"),
        (os.unlink, "model.pte was deleted or replaced while it was loaded"),
        (lambda path: path.with_name("other").replace(path), "model.pte was deleted or replaced"),
        (lambda path: os.utime(path, (1, 1)), "model.pte was written to while it was loaded"),
    ],
    ids=["shorter", "longer", "deleted", "replaced", "written"],
)
def test_a_file_that_changes_while_it_is_loaded_is_one_sentence(linear, tmp_path, change, words):
    folder, _ = linear
    path = tmp_path / "model.pte"
    for copy in (path, tmp_path / "other"):
        copy.write_bytes((folder / "whole.pte").read_bytes())
    program = open_program((os.fsencode(path),), [], {}, "file")  # reads the tables; the methods need the constants
    program.make_methods(1, False, None, 0, 0, False)
    change(path)
    with pytest.raises(ExecutionError, match=words):
        program.load_method(0)


def test_sessions_share_what_is_loaded(toy_program, toy_package, tmp_path):
    """A new session needs the file only for what its backend has released."""
    path = tmp_path / "model.pte"
    path.write_bytes(fmt.write_pte(fmt.read_pte(toy_program.read_bytes())))  # the blob in a segment
    program = edgecore.load(path, load_mode="file")
    path.unlink()
    np.testing.assert_array_equal(program.new_session().forward(X), X + 1)
