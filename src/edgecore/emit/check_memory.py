"""Does every instruction read what was written for it? Replays the instructions of an execution plan.

It looks at the finished plan, not at what the planner thought, and knows nothing of lifetimes: a value is lost as soon as
another one that overlaps it is written. Always run when compiling, since a planner may be the user's own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from edgecore import format as fmt
from edgecore.errors import CompileError

Content = Mapping[int, Sequence[int]]


def check_memory(
    plan: fmt.ExecutionPlan, delegate_inputs: Sequence[int], content: Content, new_state: Sequence[int]
) -> None:
    """Raise `CompileError` naming the first read of a lost value.

    `delegate_inputs`: for each delegate call, how many of its arguments are inputs. `content`: values that no instruction
    writes -> the values whose bytes they are. `new_state`: values that hold the content of mutable buffers at the end.
    """
    _Replay(plan, content).run(delegate_inputs, new_state)


class _Replay:
    def __init__(self, plan: fmt.ExecutionPlan, content: Content) -> None:
        self.plan, self.content = plan, content
        self.overlaps = _overlaps(plan)
        self.lost: dict[int, tuple[int, int]] = {}  # value -> (value written over it, instruction)

    def run(self, delegate_inputs: Sequence[int], new_state: Sequence[int]) -> None:
        for chain in self.plan.chains:
            steps = list(self._effects(chain, delegate_inputs))
            for index, (reads, writes) in enumerate(steps):
                self._step(index, reads, writes)
                call = chain.instructions[index].instr_args
                if isinstance(call, fmt.JumpFalseCall) and call.destination_instruction <= index:
                    for again in range(call.destination_instruction, index):
                        self._step(again, *steps[again])
            self._step(len(steps), [*self.plan.outputs, *new_state], ())

    def _effects(self, chain: fmt.Chain, delegate_inputs: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
        calls = iter(delegate_inputs)
        for instruction in chain.instructions:
            call = instruction.instr_args
            if isinstance(call, fmt.DelegateCall):
                count = next(calls)
                yield call.args[:count], call.args[count:]
            elif isinstance(call, fmt.KernelCall):
                yield self._kernel_effects(call)
            else:
                yield [], []

    def _kernel_effects(self, call: fmt.KernelCall) -> tuple[list[int], list[int]]:
        """Arguments are those of the schema, the results, then the result once more, as a list if there are several."""
        if self.plan.operators[call.op_index].name == "executorch_prim::et_copy_index":
            return [call.args[1]], [call.args[0]]
        writes = self._tensors(call.args[-1:])
        reads = [value for value in self._tensors(call.args[:-1])]
        for value in writes:
            reads.remove(value)
        return reads, writes

    def _tensors(self, values: Sequence[int]) -> list[int]:
        found = []
        for value in values:
            item = self.plan.values[value].val
            if isinstance(item, fmt.Tensor):
                found.append(value)
            elif isinstance(item, (fmt.TensorList, fmt.OptionalTensorList)):
                found += [member for member in item.items if member >= 0]
        return found

    def _step(self, index: int, reads: Sequence[int], writes: Sequence[int]) -> None:
        for value in reads:
            self._read(index, value, value)
        for value in writes:
            self.lost.update(dict.fromkeys(self.overlaps.get(value, ()), (value, index)))
            self.lost.pop(value, None)

    def _read(self, index: int, value: int, wanted: int) -> None:
        if value in self.content:
            for source in self.content[value]:
                self._read(index, source, wanted)
        elif value in self.lost:
            over, when = self.lost[value]
            raise CompileError(
                f"the memory plan of method {self.plan.name} is wrong: instruction {index} reads {self._text(wanted)}, but "
                f"instruction {when} wrote {self._text(over)} over it; the memory planner put both at the same place"
            )

    def _text(self, value: int) -> str:
        tensor = self.plan.values[value].val
        assert isinstance(tensor, fmt.Tensor) and tensor.allocation_info is not None
        place = tensor.allocation_info
        return f"value {value} ({tensor.nbytes} bytes at offset {place.offset} of memory {place.memory_id})"


def _overlaps(plan: fmt.ExecutionPlan) -> dict[int, list[int]]:
    """For each value the others that share a byte with it."""
    arenas: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for index, value in enumerate(plan.values):
        tensor = value.val
        if isinstance(tensor, fmt.Tensor) and tensor.allocation_info is not None and tensor.nbytes:
            start = tensor.allocation_info.offset
            arenas[tensor.allocation_info.memory_id].append((start, start + tensor.nbytes, index))
    found: dict[int, list[int]] = {}
    for places in arenas.values():
        starts, ends, values = np.array(places, np.int64).T
        meets = (starts[:, None] < ends[None, :]) & (starts[None, :] < ends[:, None])
        np.fill_diagonal(meets, False)
        found.update({int(value): values[row].tolist() for value, row in zip(values, meets, strict=True)})
    return found
