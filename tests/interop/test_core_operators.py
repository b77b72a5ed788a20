"""Core ATen operators on executorch's runtime, which has no kernels for many of them: they are decomposed."""

import pytest
from core_operators import MODELS, assert_equal

import edgecore

runtime = pytest.importorskip("executorch.runtime", reason="executorch, the peer, is not installed")


@pytest.mark.parametrize("name", MODELS)
def test_model_of_core_operators_runs_on_both_runtimes(name):
    model, inputs = MODELS[name]
    program = edgecore.compile(model, inputs)
    loaded = runtime.Runtime.get().load_program(bytes(program.buffer))  # its methods do not keep it alive
    want = model(*inputs)
    want = list(want) if isinstance(want, tuple) else [want]
    assert_equal(loaded.load_method("forward").execute(list(inputs)), want)
    assert_equal(edgecore.load(program.buffer).forward(*inputs), want)
