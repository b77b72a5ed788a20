"""The sample calls of operators."""

from __future__ import annotations

import torch

from edgecore.conformance.samples import sample_table  # noqa: F401  (fills calls.TABLE)
from edgecore.conformance.samples.calls import TABLE, Weight, resolve, round_inputs, samples_of
from edgecore.plugin import registry


def test_rounded_inputs_are_exact_in_lower_precisions():
    samples = samples_of("aten.add.Tensor", torch.float32, quick=True)
    round_inputs(samples)
    for tensor in (tensor for sample in samples for tensor in sample.inputs):
        assert torch.equal(tensor.half().float(), tensor) and torch.equal(tensor.bfloat16().float(), tensor)


def test_samples_add_where_they_write_an_element_twice():
    """Which of several values stays is undefined."""
    for sample in (one for one in samples_of("aten.index_put.default", torch.float32, quick=True) if not one.module):
        x, indices, values, *accumulate = sample.args
        places = [index.tensor if isinstance(index, Weight) else index for index in indices]
        counts = torch.ops.aten.index_put(torch.zeros_like(x), places, torch.ones_like(values), True)
        assert accumulate == [True] or counts.max() <= 1


# Options that change no result of a call here, or that are no numbers: where and how a tensor is stored, training,
# complex numbers; the order that `sorted=False` leaves open.
WITHOUT_EFFECT = {
    "layout", "device", "pin_memory", "non_blocking", "memory_format", "implicit", "sparse", "sparse_grad",
    "scale_grad_by_freq", "cudnn_enable", "cudnn_enabled", "dropout_p", "sorted",
}  # fmt: skip


def operators() -> list[str]:
    """List the operators of the table, and those that an installed backend claims."""
    claimed = {
        row.operator
        for one in registry.installed()
        if one.info is not None
        for row in registry.load_compiler(one.info).operator_support()
    }
    return sorted(claimed | set(TABLE))


def test_each_option_of_an_operator_is_set_in_a_sample():
    unset = []
    for operator in operators():
        target = resolve(operator)
        samples = [
            sample
            for dtype in (torch.float32, torch.int64)
            for sample in samples_of(operator, dtype, quick=True)
            if sample.module is None
        ]
        if target is None or not samples:
            continue
        for index, argument in enumerate(target._schema.arguments):
            if argument.has_default_value() and argument.name not in WITHOUT_EFFECT:
                default = argument.default_value
                values = [
                    sample.args[index] if index < len(sample.args) else sample.kwargs.get(argument.name, default)
                    for sample in samples
                ]
                if all(isinstance(value, type(default)) and value == default for value in values):
                    unset.append(f"{operator}: {argument.name}")
    assert not unset
