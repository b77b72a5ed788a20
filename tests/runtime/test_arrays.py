"""Inputs and outputs of a method: numpy arrays, torch tensors, buffers and objects with DLPack."""

from __future__ import annotations

from array import array

import pytest

import edgecore
from edgecore.errors import ExecutionError

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")


@pytest.fixture
def add(programs):
    return edgecore.load(programs["add"]).forward


def ramp():
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def plain(values, shape):
    return memoryview(array("f", values)).cast("B").cast("f", shape)


def test_numpy_inputs_give_numpy_outputs(add):
    y = add(ramp(), ramp())
    assert type(y) is np.ndarray
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, 2 * ramp())
    y += 1  # it is the caller's


class Copies(torch.nn.Module):
    def forward(self, *tensors):
        return [tensor.clone() for tensor in tensors]


DTYPES = ["bool", "float16", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))][:-1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_numpy_dtype_comes_back(dtype):
    given = [np.arange(np.prod(shape)).reshape(shape).astype(dtype) for shape in [(), (0,), (3,), (2, 1, 3)]]
    program = edgecore.compile(Copies().eval(), tuple(map(torch.from_numpy, given)), backends=[])
    for x, y in zip(given, edgecore.load(program.buffer).forward(*given), strict=True):
        assert (type(y), y.dtype, y.shape, y.flags.writeable) == (np.ndarray, x.dtype, x.shape, True)
        np.testing.assert_array_equal(y, x)


class Ramp(np.ndarray):
    """A subclass, as masked arrays and mapped files are."""


def test_an_input_of_a_numpy_subclass_gives_a_plain_array(add):
    assert type(add(ramp().view(Ramp), ramp())) is np.ndarray


def test_torch_inputs_give_torch_outputs(add):
    x = torch.arange(6.0).reshape(2, 3)
    y = add(x, x)
    assert type(y) is torch.Tensor
    assert torch.equal(y, 2 * x)


def test_a_plain_buffer_gives_a_tensor(add):
    y = add(plain(range(6), (2, 3)), plain([1] * 6, (2, 3)))
    assert type(y) is edgecore.Tensor
    assert (y.shape, y.dtype) == ((2, 3), "float32")
    assert y.tolist() == memoryview(y).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert repr(y) == "edgecore.Tensor(shape=(2, 3), dtype=float32)"


def test_a_flat_buffer_stands_for_the_whole_tensor(add):
    values = array("f", range(6))
    assert add(values, values.tobytes()).tolist() == [[0, 2, 4], [6, 8, 10]]


def test_the_first_input_decides_the_library_of_the_outputs(add):
    assert type(add(torch.ones(2, 3), ramp())) is torch.Tensor
    assert type(add(ramp(), torch.ones(2, 3))) is np.ndarray


def test_an_object_with_nothing_but_dlpack_is_accepted(add):
    class Wrapped:
        def __init__(self, inner):
            self.inner = inner

        def __dlpack__(self, **arguments):
            return self.inner.__dlpack__(**arguments)

        def __dlpack_device__(self):
            return self.inner.__dlpack_device__()

    for inner in (ramp(), torch.from_numpy(ramp()), add(plain(range(6), (2, 3)), plain([0] * 6, (2, 3)))):
        y = add(Wrapped(inner), ramp())
        assert type(y) is edgecore.Tensor
        np.testing.assert_array_equal(np.asarray(y), 2 * ramp())


def test_a_tensor_goes_on_to_other_libraries(add):
    y = add(plain(range(6), (2, 3)), plain([0] * 6, (2, 3)))
    np.testing.assert_array_equal(np.from_dlpack(y), ramp())
    assert torch.equal(torch.from_dlpack(y), torch.from_numpy(ramp()))
    np.testing.assert_array_equal(add(y, y), 2 * ramp())


def test_memory_of_outputs_outlives_tensor_model_and_later_calls(programs):
    model = edgecore.load(programs["add"])
    first = model.forward(ramp(), ramp())
    shared = torch.from_dlpack(model.forward(plain(range(6), (2, 3)), plain([0] * 6, (2, 3))))
    kept = [model.forward(ramp() + i, ramp()) for i in range(20)]
    del model
    np.testing.assert_array_equal(first, 2 * ramp())
    np.testing.assert_array_equal(shared.numpy(), ramp())
    for i, y in enumerate(kept):
        np.testing.assert_array_equal(y, 2 * ramp() + i)


def test_inputs_of_other_layouts_are_copied(add):
    transposed = np.ascontiguousarray(ramp().T).T
    strided = np.zeros((2, 9), np.float32)[:, ::3]
    strided[:] = ramp()
    backward = np.ascontiguousarray(ramp()[::-1, ::-1])[::-1, ::-1]
    for x in (transposed, strided, backward, torch.from_numpy(transposed)):
        np.testing.assert_array_equal(np.asarray(add(x, ramp())), 2 * ramp())


def test_a_channels_last_method_accepts_both_layouts_and_gives_channels_last(programs):
    image = edgecore.load(programs["image"]).forward
    assert image.inputs[0].dim_order == (0, 2, 3, 1)
    x = torch.arange(60.0).reshape(1, 3, 4, 5)
    for given in (x, x.to(memory_format=torch.channels_last)):
        y = image(given, torch.zeros_like(given))
        assert torch.equal(y, x)
        assert y.is_contiguous(memory_format=torch.channels_last)
    y = image(x.numpy(), x.numpy())
    np.testing.assert_array_equal(y, 2 * x.numpy())


def test_bfloat16_tensors_go_in_and_out(programs):
    double = edgecore.load(programs["bfloat16"]).forward
    x = torch.arange(6.0).reshape(2, 3).bfloat16()
    assert torch.equal(double(x), 2 * x)


def test_several_outputs_are_a_list(programs):
    two = edgecore.load(programs["two"]).forward(ramp())
    assert type(two) is list
    np.testing.assert_array_equal(two[0], 2 * ramp())
    np.testing.assert_array_equal(two[1], 3 * ramp())


@pytest.mark.parametrize("rows", [1, 5, 8, 2, 0])
def test_a_dynamic_dim_accepts_each_size_up_to_its_max(programs, rows):
    model = edgecore.load(programs["dynamic"])
    assert model.forward.inputs[0].dynamic
    assert model.forward.inputs[0].shape == (8, 3)
    x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
    y, z = model.forward(x)
    np.testing.assert_array_equal(y, x + x)
    np.testing.assert_array_equal(z, x * 3)


def test_out_is_written_and_returned(programs):
    two = edgecore.load(programs["two"]).forward
    a, b = np.zeros((2, 3), np.float32), torch.zeros(2, 3)
    result = two(ramp(), out=[a, b])
    assert result[0] is a
    assert result[1] is b
    np.testing.assert_array_equal(a, 2 * ramp())
    np.testing.assert_array_equal(b.numpy(), 3 * ramp())


def test_out_may_be_an_input(add):
    x = ramp()
    assert add(x, ramp(), out=[x]) is x
    np.testing.assert_array_equal(x, 2 * ramp())


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ([], "has 1 output; got 0"),
        ([np.zeros((3, 2), np.float32)], "must be float32 [2, 3]; got float32 [3, 2]"),
        ([np.zeros((2, 3), np.int32)], "must be float32 [2, 3]; got int32"),
        ([b"x" * 24], "output 0"),
        ([np.zeros((3, 2), np.float32).T], "contiguous"),
        ([np.broadcast_to(np.float32(0), (2, 3))], "read-only"),
    ],
)
def test_an_unsuitable_out_is_refused_in_one_sentence(add, out, words):
    with pytest.raises(ExecutionError) as raised:
        add(ramp(), ramp(), out=out)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ((ramp(),), "takes 2 inputs; got 1"),
        ((ramp(), ramp(), ramp()), "takes 2 inputs; got 3"),
        ((ramp(), ramp().astype(np.float64)), "Input 1 of method 'forward' must be float32, not float64"),
        ((ramp(), ramp()[:1]), "Input 1 of method 'forward': dim 0 must be 2, got 1 (shape [1, 3])."),
        ((ramp()[0], ramp()), "Input 0 of method 'forward' must have 2 dims ([2, 3]), got shape [3]."),
        ((ramp(), [1, 2]), "Input 1 of method 'forward' must be a tensor"),
        ((ramp(), None), "got NoneType"),
        ((ramp(), ramp().astype(np.complex64)), "must be float32, not complex64"),
        ((ramp(), ramp().astype(">f4")), "dtype >f4"),
        ((ramp(), ramp().astype("datetime64[s]")), "dtype datetime64[s]"),
        ((ramp(), torch.ones(2, 3, device="meta")), "cannot be read as a tensor in CPU memory (Tensor says: "),
    ],
)
def test_unsuitable_inputs_are_refused_in_one_sentence(add, inputs, words):
    with pytest.raises(ExecutionError) as raised:
        add(*inputs)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    np.testing.assert_array_equal(add(ramp(), ramp()), 2 * ramp())  # the method still works


class Named(torch.nn.Module):
    def forward(self, x, mode):
        return x * 2 if mode == "twice" else x, mode


def test_a_string_is_fixed_by_the_export():
    program = edgecore.compile(torch.export.export(Named().eval(), (torch.ones(2), "twice")), backends=[])
    named = edgecore.load(program.buffer).forward
    twice, mode = named(np.ones(2, np.float32), None)
    np.testing.assert_array_equal(twice, [2, 2])
    assert (mode, [info.dtype for info in named.outputs]) == ("twice", ["float32", "str"])
    with pytest.raises(
        ExecutionError, match=r"Input 'mode' \(1\) .* must be None \(its value was fixed when .*\); got str"
    ):
        named(np.ones(2, np.float32), "twice")
