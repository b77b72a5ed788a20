"""Format the instructions of a file for `ExecutorchProgramManager.dump_executorch_program`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from edgecore import format as fmt


def program_text(program: fmt.Program, verbose: bool = False) -> str:
    """Return the instructions of all methods, a line each; with `verbose` also the values, before the instructions."""
    return "\n".join(line for plan in program.execution_plan for line in _method(plan, verbose))


def _method(plan: fmt.ExecutionPlan, verbose: bool) -> Iterator[str]:
    yield f"{plan.name}({_named(plan.inputs)}) -> {_named(plan.outputs)}"
    if verbose:
        yield from (f"  %{index} = {_value(value.val)}" for index, value in enumerate(plan.values))
    for chain in plan.chains:
        for index, instruction in enumerate(chain.instructions):
            yield f"  [{index}] {_call(plan, instruction.instr_args)}"


def _call(plan: fmt.ExecutionPlan, call: fmt.InstructionArguments | None) -> str:
    match call:
        case fmt.KernelCall():
            return f"{plan.operators[call.op_index].key}({_named(call.args)})"
        case fmt.DelegateCall():
            return f"delegate {call.delegate_index} {plan.delegates[call.delegate_index].id}({_named(call.args)})"
        case fmt.MoveCall():
            return f"%{call.move_to} = %{call.move_from}"
        case fmt.JumpFalseCall():
            return f"if not %{call.cond_value_index}: go to [{call.destination_instruction}]"
        case fmt.FreeCall():
            return f"free %{call.value_index}"
    return "nothing"


def _value(value: fmt.KernelTypes | None) -> str:
    if isinstance(value, fmt.Tensor):
        place = value.allocation_info
        held = f", arena {place.memory_id} at {place.offset}" if place is not None else ""
        data = f", data {value.data_buffer_idx}" if value.data_buffer_idx else ""
        return f"{value.scalar_type.name.lower()} {value.sizes}{held}{data}"
    content = [getattr(value, field.name) for field in fields(value)] if value is not None else []
    return f"{type(value).__name__.lower()} {', '.join(map(repr, content))}".rstrip()


def _named(indices: Iterable[int]) -> str:
    return ", ".join(f"%{index}" for index in indices)
