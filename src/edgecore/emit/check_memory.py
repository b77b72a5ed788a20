"""Replay the execution plan to check that every instruction reads the bytes that were written for it.

The check uses only the finished plan, not the planner's lifetimes: a value counts as overwritten as soon as an
instruction writes another value that overlaps it in memory. The check runs in every compilation, because users can
supply their own planners.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from edgecore import format as fmt
from edgecore.errors import CompileError

Content = Mapping[int, Sequence[int]]


def check_memory(
    plan: fmt.ExecutionPlan,
    delegate_inputs: Sequence[int],
    content: Content,
    new_state: Sequence[int],
    written: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> None:
    """Replay a plan, and raise an error at the first read of an overwritten value.

    Args:
        plan: The finished execution plan of a method.
        delegate_inputs: For each delegate call, the number of arguments that are inputs; outputs follow them.
        content: View or concatenation that no instruction writes -> the values that hold its bytes.
        new_state: The values that hold the content of mutable buffers at the end of a run.
        written: Index of an instruction -> the arguments that its operator updates in place.

    Raises:
        CompileError: An instruction reads a value after an overlapping value was written.
    """
    _Replay(plan, content, written).run(delegate_inputs, new_state)


class _Replay:
    def __init__(self, plan: fmt.ExecutionPlan, content: Content, written: Mapping[int, Sequence[int]]) -> None:
        self.plan, self.content, self.written = plan, content, written
        self.overlaps = _overlaps(plan)
        # overwritten value -> (the value that overwrote it, index of the instruction that wrote)
        self.overwritten: dict[int, tuple[int, int]] = {}

    def run(self, delegate_inputs: Sequence[int], new_state: Sequence[int]) -> None:
        for chain in self.plan.chains:
            steps = list(self._effects(chain, delegate_inputs))
            for index, (reads, writes) in enumerate(steps):
                self._step(index, reads, writes)
                call = chain.instructions[index].instr_args
                # A backward jump ends a loop. Replay the loop's body a second time, because an iteration may read bytes
                # that the previous iteration overwrote.
                if isinstance(call, fmt.JumpFalseCall) and call.destination_instruction <= index:
                    for again in range(call.destination_instruction, index):
                        self._step(again, *steps[again])
            self._step(len(steps), [*self.plan.outputs, *new_state], ())

    def _effects(self, chain: fmt.Chain, delegate_inputs: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
        """Yield (indices of values read, indices of values written) for each instruction of `chain`."""
        calls = iter(delegate_inputs)
        for index, instruction in enumerate(chain.instructions):
            call = instruction.instr_args
            if isinstance(call, fmt.DelegateCall):
                count = next(calls)
                yield call.args[:count], call.args[count:]
            elif isinstance(call, fmt.KernelCall):
                reads, writes = self._kernel_effects(call)
                written = self.written.get(index, ())
                yield [*reads, *written], [*writes, *written]
            else:
                yield [], []

    def _kernel_effects(self, call: fmt.KernelCall) -> tuple[list[int], list[int]]:
        """Return (values read, values written) of a kernel call.

        The arguments in the file are the operator's arguments, then its results as `out` arguments, then the return
        value: the single result again, or a list of all results.
        """
        if self.plan.operators[call.op_index].name == "executorch_prim::et_copy_index":
            return [call.args[1]], [call.args[0]]
        writes = self._tensors(call.args[-1:])
        reads = [value for value in self._tensors(call.args[:-1])]
        for value in writes:
            reads.remove(value)
        return reads, writes

    def _tensors(self, values: Sequence[int]) -> list[int]:
        """Return the tensors among `values`, and the members of the tensor lists among them."""
        tensors = []
        for value in values:
            item = self.plan.values[value].val
            if isinstance(item, fmt.Tensor):
                tensors.append(value)
            elif isinstance(item, (fmt.TensorList, fmt.OptionalTensorList)):
                tensors += [member for member in item.items if member >= 0]
        return tensors

    def _step(self, index: int, reads: Sequence[int], writes: Sequence[int]) -> None:
        for value in reads:
            self._read(index, value, value)
        for value in writes:
            self.overwritten.update(dict.fromkeys(self.overlaps.get(value, ()), (value, index)))
            self.overwritten.pop(value, None)

    def _read(self, index: int, value: int, argument: int) -> None:
        """Raise an error if instruction `index` reads the overwritten value `value`.

        `argument` is the instruction's argument: `value` itself, or a view or concatenation that contains it.
        """
        if value in self.content:
            for source in self.content[value]:
                self._read(index, source, argument)
        elif value in self.overwritten:
            other, writer = self.overwritten[value]
            raise CompileError(
                f"the memory plan of method {self.plan.name} is wrong: instruction {index} reads "
                f"{self._text(argument)}, but instruction {writer} overwrote it with {self._text(other)}; the memory "
                "planner gave both the same memory"
            )

    def _text(self, value: int) -> str:
        tensor = self.plan.values[value].val
        assert isinstance(tensor, fmt.Tensor) and tensor.allocation_info is not None
        info = tensor.allocation_info
        return f"value {value} ({tensor.nbytes} bytes at offset {info.offset} of memory {info.memory_id})"


def _overlaps(plan: fmt.ExecutionPlan) -> dict[int, list[int]]:
    """For each tensor value of the plan, return the other values that overlap it in memory."""
    arenas: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for index, value in enumerate(plan.values):
        tensor = value.val
        if isinstance(tensor, fmt.Tensor) and tensor.allocation_info is not None and tensor.nbytes:
            start = tensor.allocation_info.offset
            arenas[tensor.allocation_info.memory_id].append((start, start + tensor.nbytes, index))
    overlaps: dict[int, list[int]] = {}
    for ranges in arenas.values():
        starts, ends, values = np.array(ranges, np.int64).T
        overlap = (starts[:, None] < ends[None, :]) & (starts[None, :] < ends[:, None])
        np.fill_diagonal(overlap, False)
        overlaps.update({int(value): values[row].tolist() for value, row in zip(values, overlap, strict=True)})
    return overlaps
