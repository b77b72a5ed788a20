"""The simulator: what it computes, and what it says about arrays and graphs that it cannot use."""

from __future__ import annotations

import ctypes
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tosa_graphs import binary, call, constant, convolution, convolution_in_numpy, unary

from edgecore.errors import FormatError
from edgecore.sdk import flat
from edgecore_tosa.graph import NUMPY, Graph, Tensor
from edgecore_tosa.schema import IDENTIFIER, DType, Op, TosaGraph, Version
from edgecore_tosa.simulator import SimulationError, Simulator, simulator_library


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (1, 6, 7, 2), np.int8)


def gather() -> Simulator:
    """Select rows of a table by the second input."""
    graph = Graph([Tensor((1, 4, 2), DType.INT32), Tensor((1, 3), DType.INT32)])
    graph.outputs = [call(graph, Op.GATHER, list(graph.inputs), Tensor((1, 3, 2), DType.INT32))]
    return Simulator(graph.to_bytes())


def edited(graph: Graph, edit) -> bytes:
    """The bytes of the graph after `edit` has changed its tables."""
    tables = flat.unpack(TosaGraph, graph.to_bytes(), IDENTIFIER)
    edit(tables, tables.regions[0].blocks[0])
    return bytes(flat.pack(tables, IDENTIFIER))


# ---- results


def test_an_int8_convolution_is_exact():
    simulator = Simulator(convolution().to_bytes())
    assert [(info.shape, info.dtype) for info in simulator.inputs] == [((1, 6, 7, 2), DType.INT8)]
    assert [(info.shape, info.dtype) for info in simulator.outputs] == [((1, 6, 7, 5), DType.INT8)]
    (result,) = simulator.run(image())
    np.testing.assert_array_equal(result, convolution_in_numpy(image()))
    assert np.unique(result).size > 20


def test_a_simulator_runs_as_often_as_needed():
    simulator = Simulator(convolution().to_bytes())
    for seed in (0, 1, 0):
        np.testing.assert_array_equal(simulator.run(image(seed))[0], convolution_in_numpy(image(seed)))


def test_a_float_addition_is_that_of_numpy():
    a, b = np.random.default_rng(0).standard_normal((2, 2, 3), np.float32)
    (result,) = Simulator(binary(Op.ADD, DType.FP32).to_bytes()).run(a, b)
    np.testing.assert_array_equal(result, a + b)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (DType.BOOL, [True, False, True]),
        (DType.INT4, [-7, 0, 7]),
        (DType.INT8, [-128, 0, 127]),
        (DType.INT16, [-(2**15), 0, 2**15 - 1]),
        (DType.INT32, [-(2**31), 0, 2**31 - 1]),
        (DType.INT48, [-(2**47), 0, 2**47 - 1]),
        (DType.FP32, [-1.5, np.inf, 1e-40]),
        (DType.FP16, [-1.5, np.inf, 6e-8]),
        (DType.BF16, [0xBFC0, 0x7F80, 0x0001]),
    ],
)
def test_inputs_and_constants_of_every_dtype_reach_the_output(dtype, values):
    graph = Graph([Tensor((1, 3), dtype)])
    array = np.array([values], NUMPY[dtype])
    moved = call(graph, Op.IDENTITY, list(graph.inputs), Tensor((1, 3), dtype))
    copied = call(graph, Op.IDENTITY, [constant(array, dtype)], Tensor((1, 3), dtype))
    graph.outputs = [moved, copied]
    for result in Simulator(graph.to_bytes()).run(array):
        assert result.dtype == array.dtype
        np.testing.assert_array_equal(result, array)


def test_arrays_need_not_be_contiguous():
    a = np.arange(6, dtype=np.int32).reshape(3, 2).T
    (result,) = Simulator(unary(Op.ABS, DType.INT32).to_bytes()).run(a)
    np.testing.assert_array_equal(result, a)


def test_threads_run_different_graphs_at_the_same_time():
    a, b = np.random.default_rng(0).standard_normal((2, 2, 3), np.float32)

    def work(number: int) -> bool:
        convolve, add = Simulator(convolution().to_bytes()), Simulator(binary(Op.ADD, DType.FP32).to_bytes())
        return all(
            np.array_equal(convolve.run(image(seed))[0], convolution_in_numpy(image(seed)))
            and np.array_equal(add.run(a, b)[0], a + b)
            for seed in range(10 * number, 10 * number + 10)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_the_examples_of_the_readme_run():
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    names = {"__name__": "readme"}
    for block in readme.split("```python\n")[1:]:
        exec(block.partition("```")[0], names)
    np.testing.assert_array_equal(names["result"], np.full((2, 3), 42))


# ---- arrays that do not fit


def test_the_number_of_arrays_is_checked():
    with pytest.raises(ValueError, match="1 arrays for the 2 inputs of the TOSA graph"):
        Simulator(binary(Op.ADD, DType.FP32).to_bytes()).run(np.zeros((2, 3), np.float32))


def test_shapes_of_the_same_size_are_not_exchanged():
    with pytest.raises(ValueError, match=r"shape \(3, 2\) for input 0 .* has the shape \(2, 3\)"):
        Simulator(unary(Op.ABS, DType.INT32).to_bytes()).run(np.zeros((3, 2), np.int32))


def test_dtypes_of_the_same_size_are_not_exchanged():
    a = np.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match="an array of int32 for input 1 .*, which is FP32 and takes float32"):
        Simulator(binary(Op.ADD, DType.FP32).to_bytes()).run(a, a.astype(np.int32))


@pytest.mark.parametrize(("dtype", "value"), [(DType.INT4, -8), (DType.INT48, -(2**47) - 1)])
def test_values_beyond_a_narrow_dtype_are_refused(dtype, value):
    simulator = Simulator(unary(Op.IDENTITY, dtype).to_bytes())
    with pytest.raises(ValueError, match=f"values beyond .* for input 0 .*, which is {dtype.name}"):
        simulator.run(np.full((2, 3), value, simulator.inputs[0].numpy_dtype))


def test_an_index_out_of_bounds_is_an_error_and_the_next_run_works(capfd):
    simulator, table = gather(), np.arange(8, dtype=np.int32).reshape(1, 4, 2)
    with pytest.raises(SimulationError, match="The TOSA graph failed: .*4"):
        simulator.run(table, np.array([[0, 4, 1]], np.int32))
    (result,) = simulator.run(table, np.array([[0, 3, 1]], np.int32))
    np.testing.assert_array_equal(result, table[:, [0, 3, 1]])
    assert capfd.readouterr() == ("", "")


# ---- graphs that cannot run


def _set_version(*version):
    def edit(tables, block):
        tables.version = Version(*version)

    return edit


@pytest.mark.parametrize("version", [(1, 0, 0, False), (1, 0, 1, False), (1, 1, 0, True)])
def test_graphs_of_these_versions_run(version):
    simulator = Simulator(edited(unary(Op.ABS, DType.INT32), _set_version(*version)))
    assert simulator.run(np.full((2, 3), -4, np.int32))[0].tolist() == [[4] * 3] * 2


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ((0, 80, 0, False), "0.80.0"),
        ((1, 1, 0, False), "1.1.0"),
        ((1, 2, 0, True), "1.2.0 .draft."),
        ((2, 0, 0, False), "2.0.0"),
    ],
)
def test_graphs_of_other_versions_are_refused(version, name):
    with pytest.raises(FormatError, match=f"is of TOSA {name}, but the simulator runs TOSA 1.0"):
        Simulator(edited(unary(Op.ABS, DType.INT32), _set_version(*version)))


def _rename_input(tables, block):
    block.operators[0].inputs = ["nothing"]


def _remove_dim(tables, block):
    block.tensors[0].shape = [2, -1]


def _make_variable(tables, block):
    block.tensors[0].variable = True


def _add_region(tables, block):
    tables.regions = tables.regions * 2


def _add_operand(tables, block):
    block.operators[0].inputs *= 2


def _lengthen_output(tables, block):
    block.tensors[1].shape = [2, 4]


def _exchange_attribute(tables, block):
    block.operators[0].op = Op.CONV2D


def _repeat_tensor(tables, block):
    block.tensors = block.tensors * 2


def _move_outputs(tables, block):
    block.outputs = []


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_rename_input, "An operator ABS uses 'nothing', which is not in its block"),
        (_remove_dim, "Tensor 't0' has a dim of -1; give it a static shape"),
        (_make_variable, "Tensor 't0' is a variable, and the simulator keeps no state between runs"),
        (_add_region, "The simulator runs graphs of one region with one block"),
        (_exchange_attribute, "An operator CONV2D has no complete attribute"),
        (_add_operand, "An operator ABS has 2 inputs and 1 outputs, not the numbers that TOSA says"),
        (_lengthen_output, "UnaryNode: input and output rank/type/shape must match"),
        (_repeat_tensor, "Two tensors have the name 't0'"),
        (_move_outputs, "The graph has no outputs"),
    ],
)
def test_a_graph_that_cannot_run_is_refused(edit, message):
    with pytest.raises(FormatError, match=f"^The TOSA graph cannot be simulated: {message}"):
        Simulator(edited(unary(Op.ABS, DType.INT32), edit))


def test_constants_with_too_few_bytes_are_refused():
    def cut(tables, block):
        tensor = next(tensor for tensor in block.tensors if tensor.data and len(tensor.data) > 8)
        tensor.data = tensor.data[:-8]

    with pytest.raises(FormatError, match="bytes of data, but its shape and dtype need"):
        Simulator(edited(convolution(), cut))


def test_an_operator_that_breaks_a_rule_is_refused_with_the_reason(capfd):
    with pytest.raises(FormatError, match="Binary operators ADD rhs input and output rank/shape must match"):
        Simulator(binary(Op.ADD, DType.FP32, (2, 3), (2, 4)).to_bytes())
    assert capfd.readouterr() == ("", "")


def test_an_operator_that_the_dtype_does_not_have_is_named():
    with pytest.raises(FormatError, match=r"no operator SIGMOID input=\(INT32 rank 2\) -> \(INT32 rank 2\)$"):
        Simulator(unary(Op.SIGMOID, DType.INT32).to_bytes())


def test_operands_of_different_dtypes_are_refused():
    graph = unary(Op.IDENTITY, DType.FP32)
    graph.outputs[0].dtype = DType.INT8
    with pytest.raises(
        FormatError, match="An operator IDENTITY has operands whose dtypes or shapes do not fit together"
    ):
        Simulator(graph.to_bytes())


def test_an_int4_constant_beyond_its_range_is_refused():
    graph = Graph()
    graph.outputs = [call(graph, Op.IDENTITY, [constant([1, -8], DType.INT4)], Tensor((2,), DType.INT4))]
    with pytest.raises(FormatError, match="Tensor 't0' has the value -8, but int4 values of TOSA go from -7 to 7"):
        Simulator(graph.to_bytes())


def test_bytes_of_other_files_are_refused():
    for content in (b"", b"TOSA", bytes(64), b"PK\x03\x04" + bytes(60)):
        with pytest.raises(FormatError, match="not a TOSA graph: the file identifier TOSA is missing"):
            Simulator(content)


@pytest.mark.slow
@pytest.mark.parametrize("graph", [convolution(), binary(Op.ADD, DType.FP32)], ids=["convolution", "add"])
def test_damaged_graphs_are_refused_or_run_and_nothing_is_printed(graph, capfd):
    good = graph.to_bytes()
    generator = random.Random(0)
    refused = 0
    for number in range(300):
        data = bytearray(good[: generator.randrange(len(good))] if number % 10 == 0 else good)
        for _ in range(generator.choice([1, 1, 3])):
            if data:
                data[generator.randrange(len(data))] = generator.choice([0, 1, 255, generator.randrange(256)])
        try:
            simulator = Simulator(bytes(data))
            simulator.run(*[np.zeros(info.shape, info.numpy_dtype) for info in simulator.inputs])
        except (FormatError, SimulationError, MemoryError):
            refused += 1
    assert refused > 100
    assert capfd.readouterr() == ("", "")


# ---- the C interface


def test_the_library_exports_only_its_interface():
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", simulator_library()], capture_output=True, text=True, check=True
    )
    header = (Path(__file__).parents[1] / "native/include/edgecore_tosa/simulator.h").read_text()
    names = {line.split()[2] for line in listing.stdout.splitlines()}
    assert names and all(name.startswith("edgecore_tosa_") and f" {name}(" in header.replace("*", "") for name in names)


def test_buffers_of_narrow_dtypes_have_whole_bytes():
    library = ctypes.CDLL(simulator_library())
    assert library.edgecore_tosa_simulator_version() == 1
    for dtype, size in ((DType.BOOL, 6), (DType.INT4, 6), (DType.INT48, 48), (DType.BF16, 12)):
        simulator = Simulator(unary(Op.IDENTITY, dtype).to_bytes())
        stored, rank, bytes_ = ctypes.c_uint32(), ctypes.c_size_t(), ctypes.c_size_t()
        dims = ctypes.c_void_p()
        out = [ctypes.byref(value) for value in (stored, dims, rank, bytes_)]
        assert library.edgecore_tosa_output(simulator._model, ctypes.c_size_t(0), *out) == 0
        assert (stored.value, rank.value, bytes_.value) == (dtype, 2, size)
        assert library.edgecore_tosa_output(simulator._model, ctypes.c_size_t(1), *out) != 0


def test_a_message_is_cut_to_the_callers_buffer():
    library, model = ctypes.CDLL(simulator_library()), ctypes.c_void_p()
    error = ctypes.create_string_buffer(b"#" * 16, 16)
    size = ctypes.c_size_t
    assert library.edgecore_tosa_load(b"none", size(4), ctypes.byref(model), error, size(8)) == 1
    assert error.raw == b"These b\0" + b"#" * 8
