"""LSTM and GRU layers, unrolled over time: one matmul for the inputs of all steps, and one per step for the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.subgraph import Array, SubgraphValue
from edgecore_xnnpack.operator_table import Query, lowers
from edgecore_xnnpack.operators.elementwise import binary, unary
from edgecore_xnnpack.operators.matmul import fully_connected
from edgecore_xnnpack.operators.shape import concatenate, slice_of
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten

MAX_STEPS = 512
"""Maximum length of a sequence; a longer one would give a graph of tens of thousands of nodes."""

States = tuple[SubgraphValue, ...]
"""The states of one layer and direction, each [1, batch, hidden]."""


class Cell:
    """The weights of one recurrent layer in one direction, with methods that emit its computation.

    The matrices are [gates * hidden, inputs] and [gates * hidden, hidden]; two biases [gates * hidden] are optional.
    """

    def __init__(self, weights: Sequence[Array]) -> None:
        self.of_input, self.of_state = weights[:2]
        size = len(self.of_input)
        self.input_bias, self.state_bias = weights[2:] if len(weights) == 4 else (np.zeros(size, np.float32),) * 2

    def inputs(self, low: Lowering, sequence: SubgraphValue) -> SubgraphValue:
        """Emit the summand of the gates that depends on the inputs, for all steps: [steps, batch, gates * hidden]."""
        raise NotImplementedError

    def step(self, low: Lowering, inputs: SubgraphValue, states: States) -> States:
        """Emit the states after one step, output first; `inputs` is this step's slice of the result of `inputs()`."""
        raise NotImplementedError


def _matmul(low: Lowering, state: SubgraphValue, weight: Array, bias: Array | None = None) -> SubgraphValue:
    """Emit the summand of the gates that depends on the state: state * weight^T + bias; fold it for constant states."""
    if state.constant is not None:
        result = state.constant @ weight.T
        return low.constant(result if bias is None else result + bias)
    return fully_connected(low, state, weight, None if bias is None else low.constant(bias))


def _gates(low: Lowering, value: SubgraphValue, *widths: int) -> list[SubgraphValue]:
    starts = np.cumsum((0, *widths))
    return [slice_of(low, value, len(value.shape) - 1, int(a), w) for a, w in zip(starts, widths, strict=False)]


class LstmCell(Cell):
    """An LSTM: i, f, o = sigmoid(gates), g = tanh(gate); c = f * c + i * g; h = o * tanh(c)."""

    def __init__(self, weights: Sequence[Array]) -> None:
        super().__init__([_output_gate_third(weight) for weight in weights])

    def inputs(self, low: Lowering, sequence: SubgraphValue) -> SubgraphValue:
        return fully_connected(low, sequence, self.of_input, low.constant(self.input_bias + self.state_bias))

    def step(self, low: Lowering, inputs: SubgraphValue, states: States) -> States:
        hidden, cell = states
        size = hidden.shape[-1]
        gates = binary(low, g.Add, inputs, _matmul(low, hidden, self.of_state))
        sigmoids, candidate = _gates(low, gates, 3 * size, size)
        input_gate, forget_gate, output_gate = _gates(low, unary(low, g.Sigmoid, sigmoids), size, size, size)
        added = binary(low, g.Multiply, input_gate, unary(low, g.Tanh, candidate))
        cell = binary(low, g.Add, binary(low, g.Multiply, forget_gate, cell), added)
        return binary(low, g.Multiply, output_gate, unary(low, g.Tanh, cell)), cell


def _output_gate_third(weight: Array) -> Array:
    """Reorder rows from PyTorch's i, f, g, o to i, f, o, g, so that one sigmoid computes three gates."""
    i, f, candidate, o = np.split(weight, 4)
    return np.concatenate([i, f, o, candidate])


class GruCell(Cell):
    """A GRU: r, z = sigmoid(gates); n = tanh(input + r * state); h = n + z * (h - n)."""

    def inputs(self, low: Lowering, sequence: SubgraphValue) -> SubgraphValue:
        # For a GRU's gates r and z, add both biases here. Gate n multiplies its state bias by r, so `step` adds this
        # bias.
        bias = self.input_bias.copy()
        inner = 2 * len(bias) // 3
        bias[:inner] += self.state_bias[:inner]
        return fully_connected(low, sequence, self.of_input, low.constant(bias))

    def step(self, low: Lowering, inputs: SubgraphValue, states: States) -> States:
        (hidden,) = states
        size = hidden.shape[-1]
        bias = self.state_bias.copy()
        bias[: 2 * size] = 0
        sums, input_candidate = _gates(low, inputs, 2 * size, size)
        of_state, candidate = _gates(low, _matmul(low, hidden, self.of_state, bias), 2 * size, size)
        reset, update = _gates(low, unary(low, g.Sigmoid, binary(low, g.Add, sums, of_state)), size, size)
        new = unary(low, g.Tanh, binary(low, g.Add, input_candidate, binary(low, g.Multiply, reset, candidate)))
        return (binary(low, g.Add, new, binary(low, g.Multiply, update, binary(low, g.Subtract, hidden, new))),)


def _check(query: Query) -> str | None:
    if len(query.shape) != 3:
        return f"rank {len(query.shape)}"
    steps = query.argument("input").meta["val"].shape[1 if query.argument("batch_first") else 0]
    if not isinstance(steps, int) or steps > MAX_STEPS:
        return f"{steps} steps"
    if not all(query.is_constant(weight) for weight in query.argument("params")):
        return "weights not constant"
    per_cell = 4 if query.argument("has_biases") else 2
    cells = query.argument("num_layers") * (2 if query.argument("bidirectional") else 1)
    if len(query.argument("params")) != per_cell * cells:
        return "projected states (proj_size)"
    return "dropout" if query.argument("train") and query.argument("dropout") else None


def _unroll(
    low: Lowering, make: Callable[[Sequence[Array]], Cell], initial: Sequence[SubgraphValue]
) -> list[SubgraphValue]:
    """Emit all steps of all layers.

    Args:
        low: The lowering.
        make: Creates a cell from its weights.
        initial: The initial states, each [layers * directions, batch, hidden].

    Returns:
        The output, and the last states in the shape of the initial ones.
    """
    arrays = [low.array(weight) for weight in low.argument("params")]
    weights = [array for array in arrays if array is not None]
    per_cell = 4 if low.argument("has_biases") else 2
    directions = 2 if low.argument("bidirectional") else 1
    sequence = low.permute(low.input(), (1, 0, 2)) if low.argument("batch_first") else low.input()
    last: list[list[SubgraphValue]] = [[] for _ in initial]
    for layer in range(int(low.argument("num_layers"))):
        sides: list[SubgraphValue] = []
        for direction in range(directions):
            index = layer * directions + direction
            cell = make(weights[index * per_cell : (index + 1) * per_cell])
            inputs, outputs = cell.inputs(low, sequence), []
            states = tuple(_row(low, state, index) for state in initial)
            for time in range(inputs.shape[0])[:: -1 if direction else 1]:
                states = cell.step(low, _row(low, inputs, time), states)
                outputs.append(states[0])
            sides.append(concatenate(low, outputs[:: -1 if direction else 1], 0))
            for collected, state in zip(last, states, strict=True):
                collected.append(state)
        sequence = concatenate(low, sides, 2)
    output = low.permute(sequence, (1, 0, 2)) if low.argument("batch_first") else sequence
    return [output, *(concatenate(low, states, 0) for states in last)]


def _row(low: Lowering, value: SubgraphValue, index: int) -> SubgraphValue:
    """Return the element `index` of the first dimension, which is kept with a size of 1."""
    if value.constant is not None:
        return low.constant(value.constant[index : index + 1])
    return slice_of(low, value, 0, index, 1)


_CONSTRAINTS = f"rank 3, at most {MAX_STEPS} steps, constant weights, no projection"


@lowers(aten.lstm.input, check=_check, constraints=_CONSTRAINTS, do_not_decompose=True)
def _lstm(low: Lowering, node: Node) -> list[SubgraphValue]:
    return _unroll(low, LstmCell, [low.value(state) for state in low.argument("hx")])


@lowers(aten.gru.input, check=_check, constraints=_CONSTRAINTS, do_not_decompose=True)
def _gru(low: Lowering, node: Node) -> list[SubgraphValue]:
    return _unroll(low, GruCell, [low.value(low.argument("hx"))])
