"""Operators of PyTorch's database run on edgecore's kernels as in eager PyTorch, or are refused for a listed reason.

The samples are of float32. Whatever `torch.export` refuses is no subject here.
"""

import random
import re
from itertools import islice

import pytest
import torch
from edge_programs import Function
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core as opinfo_core
from torch.utils import _pytree as pytree

import edgecore
from edgecore import format as fmt
from edgecore.errors import EdgecoreError

# Each call of a sample generator looks through the whole stack for the test that called it, which takes 20 ms.
opinfo_core.extract_test_fn = lambda: None

ENTRIES = [entry for entry in op_db if torch.float32 in entry.supported_dtypes("cpu")]

WITHOUT_VALUES = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_"}
"""Entries whose results are memory that nothing has written."""

REFUSED = {
    "no runtime has factorizations of matrices": """
        _linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd cholesky cholesky_inverse cholesky_solve
        geqrf linalg_cholesky_ex linalg_eig linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex
        linalg_ldl_solve linalg_lu linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_pinv linalg_qr
        linalg_solve_triangular lu_unpack ormqr triangular_solve
    """,
    "no runtime has the function, which torch decomposes into its primitives only, if at all": """
        digamma erfc erfinv frexp i0 igamma igammac lgamma nextafter polygamma special_airy_ai special_bessel_j0
        special_bessel_j1 special_bessel_y0 special_bessel_y1 special_chebyshev_polynomial_t
        special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_erfcx
        special_hermite_polynomial_h special_hermite_polynomial_he special_i0e special_i1 special_i1e
        special_laguerre_polynomial_l special_legendre_polynomial_p special_modified_bessel_i0
        special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri
        special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t
        special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
        special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 special_zeta
    """,
    "torch has no decomposition, and a model rarely has the operator": """
        _unique2 embedding_renorm fractional_max_pool2d
        fractional_max_pool3d hash_tensor histc histogram resize segment_reduce
        unique_dim
    """,
    "random choices of training": "multinomial rrelu_with_noise_functional",
    "the index is uint8, which only an empty one may be": "gather",
    "an operator of torch's own Python code": """
        _linear_cross_entropy_batch_chunked _linear_cross_entropy_batch_chunked_no_reduction
    """,
}
OPERATORS = {operator for operators in REFUSED.values() for operator in operators.split()}

_SIZE, _CHANNELS = "torch bounds the result by the size of the broadcast tensor", "eager takes empty rows alone"
BEYOND = {
    ("masked_select", "an output of maximum shape"): _SIZE,
    ("nn.functional.batch_norm", "IndexError: tuple index out of range"): _CHANNELS,
    ("nn.functional.batch_norm", "must have at least two dims"): _CHANNELS,
}
"""Samples for which torch's export or decomposition is wrong, or of no use: the entry, words of the error, the reason."""

MESSAGES = {
    "complex numbers": r"which torch\.view_as_real gives$|gives torch\.complex32",
    "sparse tensors": r"edgecore has dense tensors only",
    "sizes that depend on data": r"without an upper bound",
    "histograms of several dims": r"^(after the pass decompose: )?aten\._histogramdd_\w+",
}
"""Reasons that are in the message, whatever the operator."""


def called(message):
    match = re.search(r"\b\w+\.(\w+)\.\w+ \(node", message)
    return match and match[1]


def tensors(results):
    return [item for item in pytree.tree_leaves(results) if isinstance(item, torch.Tensor)]


def as_model(operator, sample):
    """Return a model that calls the operator, and its inputs: all tensors of the sample."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(x):
        values = list(leaves)
        for place, value in zip(places, x, strict=True):
            values[place] = value
        first, args, kwargs = pytree.tree_unflatten(values, spec)
        return tuple(tensors(operator(first, *args, **kwargs)))

    return Function(call).eval(), [leaves[place] for place in places]


def is_random(program):
    calls = [node.target for node in program.graph.nodes if node.op == "call_function"]
    return any(torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()) for target in calls)


def compared(entry, sample):
    """Compare a sample with eager. Return the operator for which `compile` refused it, "" if it did not, else None."""
    model, inputs = as_model(entry.op, sample)
    try:
        want = model([value.clone() for value in inputs])
        program = torch.export.export(model, ([value.clone() for value in inputs],))
    except Exception:
        return None
    try:
        file = edgecore.compile(program, runtime=fmt.EDGECORE).buffer
        got = edgecore.load(file).forward(*([inputs] if inputs else []))
    except EdgecoreError as error:
        operator = called(str(error))
        if operator in OPERATORS:
            return operator
        is_beyond = any(entry.name == name and words in str(error) for name, words in BEYOND)
        assert is_beyond or any(re.search(message, str(error)) for message in MESSAGES.values()), str(error)
        return None
    got = list(got) if isinstance(got, (list, tuple)) else [got]
    has_values = entry.name not in WITHOUT_VALUES and not is_random(program)
    results = [torch.from_dlpack(value) for value in got[len(got) - len(want) :]]  # written inputs come first
    for actual, expected in zip(results, want, strict=True):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        if has_values:
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5, equal_nan=True, check_stride=False)
    return ""


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in (1, 2, 3))])
def test_drawn_samples_equal_eager(part):
    draw = random.Random(part)
    counts = {"": 0}
    for entry in draw.sample(ENTRIES, 50):
        sample = draw.choice(list(islice(entry.sample_inputs("cpu", torch.float32), 20)))
        operator = compared(entry, sample)
        counts[operator] = counts.get(operator, 0) + 1
    assert counts[""] >= 25


@pytest.mark.full
def test_every_entry_equals_eager():
    problems, refused = [], set()
    for entry in ENTRIES:
        samples = list(islice(entry.sample_inputs("cpu", torch.float32), 200))
        for index in range(0, len(samples), -(-len(samples) // 5) or 1):
            try:
                refused.add(compared(entry, samples[index]))
            except Exception as error:
                problems.append(f"{entry.formatted_name}, sample {index}: {error}")
    assert not problems, "\n".join(problems)
    assert refused - {"", None} == OPERATORS
