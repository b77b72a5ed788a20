"""Loading: where files come from, what is refused, what backends are loaded."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import pytest

import edgecore
from edgecore.errors import BackendBroken, BackendError, BackendNotFound, EdgecoreError, ExecutionError, FormatError
from edgecore.runtime import kernels

np = pytest.importorskip("numpy")
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_program_is_loaded_from_every_source_of_bytes(programs):
    path = programs["add"]
    data = path.read_bytes()
    for source in (path, str(path), data, bytearray(data), memoryview(data), io.BytesIO(data), path.open("rb")):
        np.testing.assert_array_equal(edgecore.load(source).forward(X, X), 2 * X)
    with pytest.raises(TypeError, match="not int"):
        edgecore.load(3)


def test_a_file_of_five_gigabytes_is_mapped_and_runs(tmp_path):
    """Sparse on disk: its weights lie behind 5 GiB of nothing, which is mapped and never read."""
    torch = pytest.importorskip("torch")
    linear = torch.nn.Linear(3, 2).eval()
    data = edgecore.compile(linear, (torch.ones(2, 3),), backends=[]).buffer
    base, far = int.from_bytes(data[24:32], "little"), 5 << 30
    with (tmp_path / "big.pte").open("wb") as file:
        file.write(data[:24] + far.to_bytes(8, "little") + data[32:base])
        file.seek(far)
        file.write(data[base:])
    expected = edgecore.load(data).forward(X)
    np.testing.assert_array_equal(edgecore.load(tmp_path / "big.pte").forward(X), expected)


def test_a_program_describes_its_methods(programs):
    model = edgecore.load(programs["add"], threads=1)
    assert model.methods == ("forward",)
    assert list(model) == ["forward"]
    forward = model["forward"]
    assert forward is model.forward
    assert [(info.dtype, info.shape, info.dynamic) for info in forward.inputs] == [("float32", (2, 3), False)] * 2
    assert [info.shape for info in forward.outputs] == [(2, 3)]
    assert forward.delegates == ()
    assert forward.planned_bytes > 0
    with pytest.raises(KeyError, match="no method 'encode'; it has: forward"):
        model["encode"]
    with pytest.raises(AttributeError, match="no method 'encode'"):
        model.encode


def test_arguments_of_load_are_checked(programs):
    with pytest.raises(ValueError, match="at least 1"):
        edgecore.load(programs["add"], threads=0)
    with pytest.raises(BackendError, match="options for xnnpack"):
        edgecore.load(programs["add"], options={"xnnpack": {}})
    with pytest.raises(ExecutionError, match="ptd"):
        edgecore.load(programs["add"], data=["weights.ptd"])


def test_a_missing_file_is_reported_with_its_path():
    with pytest.raises(ExecutionError, match=r"/no/such\.pte: No such file"):
        edgecore.load("/no/such.pte")


@pytest.mark.parametrize("content", [b"", b"x", b"\x89PNG\r\n\x1a\n" + bytes(100), bytes(1000)])
def test_a_file_of_another_kind_is_refused_with_its_name(tmp_path, content):
    path = tmp_path / "other.pte"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="other.pte"):
        edgecore.load(path)
    with pytest.raises(FormatError):
        edgecore.load(content)


def test_every_truncation_is_refused(programs, toy_program, toy_package):
    for path in (programs["two"], toy_program):
        data = path.read_bytes()
        for size in range(0, len(data) - 64, 7):  # the end of a file may be padding
            with pytest.raises(EdgecoreError):
                edgecore.load(data[:size])


def test_no_flipped_bit_of_the_header_crashes(programs):
    data = bytearray(programs["two"].read_bytes())
    refused = 0
    for bit in range(64 * 8):
        data[bit // 8] ^= 1 << bit % 8
        try:
            edgecore.load(data)
        except EdgecoreError as error:
            refused += 1
            assert "\n" not in str(error)
        data[bit // 8] ^= 1 << bit % 8
    assert refused > 100


def test_a_backend_that_is_not_installed_is_named(toy_program):
    with pytest.raises(BackendNotFound, match="ToyBackend"):
        edgecore.load(toy_program)


def test_the_package_of_a_missing_backend_is_named_where_it_is_known(toy_program, monkeypatch):
    from edgecore.plugin import registry

    monkeypatch.setattr(registry, "scan", list)  # as if no backend were installed
    data = toy_program.read_bytes().replace(b"ToyBackend", b"FooBackend")
    with pytest.raises(BackendNotFound, match="'FooBackend' is not installed, and no package is known for it"):
        edgecore.load(data)
    with pytest.raises(BackendNotFound, match="pip install edgecore-xnnpack"):
        registry.find("XnnpackBackend")


def test_a_delegate_runs_on_the_backend_of_an_installed_package(toy_program, toy_package):
    model = edgecore.load(toy_program, threads=2)
    assert model.forward.delegates == ("ToyBackend",)
    np.testing.assert_array_equal(model.forward(X), X + 1)


def test_options_of_a_backend_are_given_by_name_or_id(toy_program, toy_package):
    np.testing.assert_array_equal(edgecore.load(toy_program, options={"toy": {"offset": 3}}).forward(X), X + 3)
    model = edgecore.load(toy_program, options={"ToyBackend": {"offset": 2.5}})
    np.testing.assert_array_equal(model.forward(X), X + 2.5)
    with pytest.raises(ExecutionError, match="no option 'ofset' for loading; it has: offset, together"):
        edgecore.load(toy_program, options={"toy": {"ofset": 3}})
    with pytest.raises(ExecutionError, match="of type float; got string"):
        edgecore.load(toy_program, options={"toy": {"offset": "3"}})


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ("__import__('pathlib').Path('libtoy.so')", ExecutionError, "not given by an absolute path"),
        ("'/no/such/libtoy.so'", ExecutionError, "/no/such/libtoy.so"),
        ("__file__", ExecutionError, "cannot be loaded"),
        ("open('/no/such/file')", BackendBroken, "library of backend 'toy' cannot be found"),
    ],
)
def test_a_broken_library_of_a_backend_is_one_sentence(toy_program, install_toy, answer, error, words):
    install_toy(answer)
    with pytest.raises(error, match=words) as raised:
        edgecore.load(toy_program)
    assert "\n" not in str(raised.value)


def test_a_blob_that_the_backend_refuses_is_quoted(toy_program, toy_package):
    data = toy_program.read_bytes()
    assert data.count(b"toy1") == 1
    with pytest.raises(ExecutionError, match="toy1"):
        edgecore.load(data.replace(b"toy1", b"toy2"))


def test_other_threads_run_while_a_method_runs(toy_program, toy_package):
    """Each execute waits until three are under way: with the GIL held, or one lock for all, none would return."""
    models = [edgecore.load(toy_program, options={"toy": {"together": 3}}) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        for i, result in enumerate(pool.map(lambda i: models[i].forward(X + i), range(3))):
            np.testing.assert_array_equal(result, X + i + 1)


def test_threads_that_share_a_method_take_turns(toy_program, toy_package):
    model = edgecore.load(toy_program, threads=2)

    def run(i):
        for _ in range(200):
            np.testing.assert_array_equal(model.forward(X + i), X + i + 1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))


def test_the_list_of_kernels_names_each_once():
    names = kernels()
    assert ("aten::add", "out") in names
    assert len(set(names)) == len(names)
