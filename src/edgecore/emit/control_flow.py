"""Emit branches and loops as instructions: jumps, moves of numbers, copies of tensors.

The results of a control-flow node are values of the plan. A branch of `cond` computes directly into the results where
possible. In a loop, the results hold the carried values: the body computes new values in separate memory, and each
iteration ends with a copy of the new values over the old values. `scan` and `map` also stack one slice per iteration.
executorch's `et_copy_index` writes a slice and resizes the stack to the slices written so far, so the stack is marked
as dynamic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from edgecore import format as fmt
from edgecore.emit.out_variants import Argument
from edgecore.ir.control_flow import COND, WHILE, ControlFlow, control_flow, result_users, results
from edgecore.memory.specs import SPEC, TensorSpec

if TYPE_CHECKING:
    from edgecore.emit.emitter import Emitter

ADD, LESS = ("executorch_prim::add", "Scalar"), ("executorch_prim::lt", "Scalar")
COPY_INDEX = ("executorch_prim::et_copy_index", "tensor")
SELECT, SIZE = ("aten::select_copy", "int_out"), ("aten::sym_size", "int")
COPY = ("dim_order_ops::_clone_dim_order", "out")


def kernels_of(node: Node) -> list[tuple[str, str]]:
    """Return the names of the kernels that the emitter adds for a control-flow node itself, not for its bodies."""
    flow = control_flow(node)
    loop = [ADD, LESS, SELECT, SIZE, *([COPY_INDEX] if len(node.meta["val"]) > len(flow.carried) else [])]
    return [COPY, *(loop if flow.scanned else [])]


def emit_control_flow(emitter: Emitter, node: Node) -> None:
    """Emit the instructions of a control-flow node and of its bodies."""
    _ControlFlowEmitter(emitter, node).emit()


class _ControlFlowEmitter:
    """Emits one control-flow node. `stacked` has the indices of the results to which each iteration adds a slice."""

    def __init__(self, emitter: Emitter, node: Node) -> None:
        self.emitter, self.node = emitter, node
        self.flow: ControlFlow = control_flow(node)
        self.specs: tuple[TensorSpec | None, ...] = node.meta[SPEC]
        self.stacked = range(len(self.flow.carried), len(self.specs)) if self.flow.scanned else range(0)
        self.results = [self._result(index) for index in range(len(self.specs))]

    def emit(self) -> None:
        for user, index in result_users(self.node):
            self.emitter.bind(user, self.results[index])
        if self.flow.node.target is COND:
            self._branches()
        elif self.flow.node.target is WHILE:
            self._while()
        else:
            self._scan()

    def _result(self, index: int) -> int:
        spec, val = self.specs[index], self.node.meta["val"][index]
        if spec is not None:
            spec.dynamic = spec.dynamic or index in self.stacked
            return self.emitter.result(spec)
        return self.emitter.add_value(_empty_number(val))

    # Branches and loops -----------------------------------------------------------------------------------------------

    def _branches(self) -> None:
        true, false = self.flow.bodies
        to_false = self._jump_if_false(self._value(self.flow.predicate))
        self._store(self._body(true, self._operands()))
        to_end = self._jump()
        to_false.destination_instruction = self.emitter.position
        self._store(self._body(false, self._operands()))
        to_end.destination_instruction = self.emitter.position

    def _while(self) -> None:
        condition, body = self.flow.bodies
        self._store([self._value(operand) for operand in self.flow.carried])
        inputs = self.results + [self._value(operand) for operand in self.flow.captured]
        top = self.emitter.position
        (holds,) = self._body(condition, inputs)
        to_end = self._jump_if_false(holds)
        self._store(self._body(body, inputs))
        self._jump().destination_instruction = top
        to_end.destination_instruction = self.emitter.position

    def _scan(self) -> None:
        """Emit `map` or `scan` as a loop whose index runs over dim 0 of the scanned tensors."""
        (body,) = self.flow.bodies
        carried = len(self.flow.carried)
        self._store([self._value(operand) for operand in self.flow.carried])
        zero, one = self.emitter.literal(fmt.Int(0)), self.emitter.literal(fmt.Int(1))
        index, more = self.emitter.add_value(fmt.Int(0)), self.emitter.add_value(fmt.Bool(False))
        length = self._length(zero)
        self.emitter.move(zero, index, self.node)
        top = self.emitter.position
        self._kernel(LESS, index, length, more)
        to_end = self._jump_if_false(more)
        inputs = self.results[:carried]
        for placeholder, operand, is_slice in self.flow.bound(body):
            if is_slice:
                part = self.emitter.result(placeholder.meta[SPEC])
                self._kernel(SELECT, self._value(operand), zero, index, part, part)
                inputs.append(part)
        inputs += [self._value(operand) for operand in self.flow.captured]
        returned = self._body(body, inputs)
        for stack, part in zip(self.results[carried:], returned[carried:], strict=True):
            self._kernel(COPY_INDEX, stack, part, index)
        self._store(returned[:carried])
        self._kernel(ADD, index, one, index)
        self._jump().destination_instruction = top
        to_end.destination_instruction = self.emitter.position

    def _length(self, zero: int) -> int:
        """Return the index of the value with the loop's number of iterations; `zero` is the index of the literal 0."""
        scanned = self.flow.scanned[0]
        size = scanned.meta["val"].shape[0]
        if isinstance(size, int):
            return self.emitter.literal(fmt.Int(size))
        length = self.emitter.add_value(fmt.Int(0))
        self._kernel(SIZE, self._value(scanned), zero, length)
        return length

    # Helpers ----------------------------------------------------------------------------------------------------------

    def _body(self, body: GraphModule, inputs: list[int]) -> list[int]:
        """Emit the instructions of a branch or loop body, and return the indices of the values of its results."""
        for (placeholder, _, _), value in zip(self.flow.bound(body), inputs, strict=True):
            self.emitter.bind(placeholder, value)
        for node in body.graph.nodes:
            if node.op == "call_function":
                self.emitter.emit_call(node)
        return [self._value(value) for value in results(body)]

    def _store(self, sources: list[int]) -> None:
        """Copy `sources` (a body's results, or a loop's initial values) into the first results of the node."""
        targets = self.results[: len(sources)]
        specs = self.specs[: len(sources)]
        for position, (source, target, spec) in enumerate(zip(sources, targets, specs, strict=True)):
            # First copy a number that another move would overwrite before it is read, as in the swap a, b = b, a.
            if spec is None and source in targets and source != target:
                sources[position] = self.emitter.add_value(_empty_number(self.node.meta["val"][position]))
                self.emitter.move(source, sources[position], self.node)
        for source, target, spec in zip(sources, targets, specs, strict=True):
            if source == target:
                continue
            if spec is None:
                self.emitter.move(source, target, self.node)
            else:
                order = self.emitter.literal(fmt.IntList([self._int(i) for i in range(len(spec.shape))]))
                self._kernel(COPY, source, self.emitter.literal(fmt.Bool(False)), order, target, target)

    def _operands(self) -> list[int]:
        return [self._value(operand) for operand in self.flow.operands]

    def _value(self, value: Any) -> int:
        return self.emitter.value(Argument(value, "Scalar"), self.node)

    def _int(self, value: int) -> int:
        return self.emitter.literal(fmt.Int(value))

    def _kernel(self, name: tuple[str, str], *arguments: int) -> None:
        self.emitter.kernel(*name, list(arguments), self.node)

    def _jump_if_false(self, condition: int) -> fmt.JumpFalseCall:
        return self.emitter.jump_if_false(condition, self.node)

    def _jump(self) -> fmt.JumpFalseCall:
        return self._jump_if_false(self.emitter.literal(fmt.Bool(False)))


def _empty_number(val: Any) -> fmt.Bool | fmt.Double | fmt.Int:
    if isinstance(val, (bool, torch.SymBool)):
        return fmt.Bool(False)
    return fmt.Double(0.0) if isinstance(val, (float, torch.SymFloat)) else fmt.Int(0)
