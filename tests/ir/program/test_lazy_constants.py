"""Constants whose bytes come from a function: the same file as from tensors, without their memory."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import edgecore
from edgecore import format as fmt
from edgecore.errors import CompileError

ROWS, WIDTH = 32, 8
IDS = torch.tensor([[1, 5, 31]])


class Tables(nn.Module):
    """Sums of embeddings; `tables` are their weights."""

    def __init__(self, *tables):
        super().__init__()
        self.tables = nn.ParameterList(nn.Parameter(table, requires_grad=False) for table in tables)

    def forward(self, ids):
        return sum(nn.functional.embedding(ids, table) for table in self.tables)


def values(seed):
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(seed))


def lazy(tensor, calls):
    data = tensor.numpy().tobytes()

    def pieces():
        calls.append(tensor)
        yield data[:100]
        yield b""
        yield np.frombuffer(data[100:], np.float32)

    return edgecore.lazy_constant(tensor.shape, tensor.dtype, pieces)


def compiled(*tables, **options):
    return edgecore.compile(Tables(*tables).eval(), (IDS,), **options)


def test_the_file_is_that_of_the_tensors_and_each_function_is_called_once():
    calls = []
    program = compiled(lazy(values(0), calls), lazy(values(1), calls))
    assert program.buffer == program.buffer == compiled(values(0), values(1)).buffer
    assert len(calls) == 2
    torch.testing.assert_close(edgecore.load(program.buffer).forward(IDS), Tables(values(0), values(1))(IDS))


def test_equal_content_is_stored_once_whether_it_is_lazy_or_not():
    calls = []
    program = compiled(lazy(values(0), calls), values(0), lazy(values(0), calls), lazy(values(1), calls))
    assert [memoryview(data).nbytes for data in program.pte.constants] == [0, 1024, 1024]


def test_lazy_constants_can_be_in_another_file(tmp_path):
    program = compiled(lazy(values(0), []), values(1), external_data={"*0": "weights"}, constant_tensor_alignment=64)
    paths = program.save(tmp_path / "model.pte")
    assert [path.name for path in paths] == ["model.pte", "weights.ptd"]
    expected = compiled(values(0), values(1), external_data={"*0": "weights"}, constant_tensor_alignment=64)
    assert paths[1].read_bytes() == expected.data_buffers[0]
    loaded = edgecore.load(paths[0], data=[paths[1]])
    torch.testing.assert_close(loaded.forward(IDS), Tables(values(0), values(1))(IDS))


def test_a_backend_gets_the_values():
    pytest.importorskip("edgecore_xnnpack")
    weight = lazy(values(0), calls := [])
    linear = nn.Linear(WIDTH, ROWS, bias=False)
    linear.weight = nn.Parameter(weight, requires_grad=False)
    x = torch.randn(2, WIDTH)
    program = edgecore.compile(linear.eval(), (x,), backends=["xnnpack"])
    torch.testing.assert_close(edgecore.load(program.buffer).forward(x), x @ values(0).T)
    assert len(calls) == 1


@pytest.mark.parametrize("recipe", ["int8", "int8-dynamic", None])
def test_quantizing_and_comparing_use_the_values(recipe):
    pytest.importorskip("edgecore_xnnpack")
    x = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(2))
    options = {"calibration": [(x,)]} if recipe == "int8" else {}

    def compiled(weight):
        linear = nn.Linear(WIDTH, ROWS, bias=False)
        linear.weight = nn.Parameter(weight, requires_grad=False)
        return linear.eval(), edgecore.compile(linear.eval(), (x,), backends=["xnnpack"], quantize=recipe, **options)

    model, program = compiled(lazy(values(0), []))
    assert program.buffer == compiled(values(0))[1].buffer
    assert program.compare(model, (x,)).rows[0].eager.sqnr > 20


def test_a_part_of_a_lazy_constant_and_a_lazy_state_are_loaded():
    class Model(nn.Module):
        def __init__(self, table, state):
            super().__init__()
            self.register_buffer("table", table[3])
            self.register_buffer("state", state)

        def forward(self, x):
            self.state.add_(x)
            return self.state * self.table

    x = torch.randn(ROWS, WIDTH)
    program = edgecore.compile(Model(lazy(values(0), []), lazy(values(1), [])).eval(), (x,))
    torch.testing.assert_close(edgecore.load(program.buffer).forward(x), (values(1) + x) * values(0)[3])


@pytest.mark.parametrize(("size", "found"), [(1000, "1000 bytes"), (1028, "more")])
def test_a_function_that_gives_another_number_of_bytes_is_refused(size, found):
    table = edgecore.lazy_constant((ROWS, WIDTH), torch.float32, lambda: [bytes(size)])
    with pytest.raises(CompileError, match=f"a lazy constant has 1024 bytes, but its function gave {found}"):
        compiled(table)


def test_an_empty_lazy_constant_is_an_ordinary_tensor():
    assert edgecore.lazy_constant((0, 4), torch.int8, lambda: []).shape == (0, 4)


MEASURE = """
import resource, sys, tracemalloc
import numpy as np
import torch
import edgecore
sys.path.insert(0, sys.argv[3])
from test_lazy_constants import IDS, Tables, values

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

edgecore.compile(Tables(values(0)).eval(), (IDS,))
count, rows = 6, int(sys.argv[2]) // 6 // 4096 // 4

def table(seed):
    def pieces():
        for start in range(0, rows, 256):
            yield np.full((min(256, rows - start), 4096), seed + start, np.float32)
    return edgecore.lazy_constant((rows, 4096), torch.float32, pieces)

before = peak()
tracemalloc.start()
program = edgecore.compile(Tables(*map(table, [*range(count), 0])).eval(), (IDS,), constant_tensor_alignment=64)
program.save(sys.argv[1])
print(peak() - before, tracemalloc.get_traced_memory()[1])
"""


def check_memory_of_a_large_file(path, size, limit):
    command = [sys.executable, "-c", MEASURE, str(path), str(size), str(__file__).rpartition("/")[0]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    resident, traced = map(int, done.stdout.split())
    print(f"{size >> 20} MB of constants: {resident >> 20} MB of memory, {traced >> 20} MB traced")
    assert resident < limit and traced < limit, (resident, traced)
    assert 0 <= path.stat().st_size - size < 1 << 20  # the seventh table, which equals the first, is not there
    pte = fmt.read_pte(np.memmap(path))
    assert [np.frombuffer(data, np.float32)[0] for data in pte.constants[1:]] == list(range(6))
    path.unlink()


@pytest.mark.slow
def test_the_constants_of_a_large_file_are_never_in_memory_together(tmp_path):
    check_memory_of_a_large_file(tmp_path / "large.pte", 6 * (64 << 20), 150 << 20)


@pytest.mark.full
def test_a_file_of_1_5_gb_takes_less_than_300_mb_of_memory(tmp_path):
    check_memory_of_a_large_file(tmp_path / "large.pte", 6 * (256 << 20), 300 << 20)
