"""Every operator of the target runtime executorch-1.5 in files of both toolchains: each runs on the other's runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from checker import Catalog, Checker
from native import KernelError
from one_call import OneCall, overload, run_on_edgecore, run_on_executorch, written_by_edgecore, written_by_executorch
from operator_cases import CALLS, CASES

from edgecore import format as fmt

pytest.importorskip("executorch.runtime", reason="executorch, the peer, is not installed")

GREATEST_FIRST = ("aten::nonzero.out", "aten::masked_select.out", "aten::repeat_interleave.Tensor_out")
"""Operators whose result has the size that its contents make."""

LISTED = fmt.profile_operators(fmt.EXECUTORCH_1_5) - fmt.profile_libraries(fmt.EXECUTORCH_1_5)["custom_ops"]
DEVICE = "executorch's kernel refuses tensors in host memory, and its Python runtime has no other"
ON_DEVICES = {"et_copy::_h2d_copy.out": DEVICE, "et_copy::_d2h_copy.out": DEVICE}


@dataclass(frozen=True)
class Direction:
    """Who writes, who runs, and what that one cannot run."""

    write: Callable[[fmt.Program], bytes]
    run: Callable[[bytes, Sequence[torch.Tensor]], list[Any]]
    exceptions: Mapping[str, str]


DIRECTIONS = {
    "ours on executorch": Direction(written_by_edgecore, run_on_executorch, ON_DEVICES),
    "theirs on edgecore": Direction(written_by_executorch, run_on_edgecore, {}),
}


class Files:
    """In the place of the kernel library: each call becomes a file."""

    def __init__(self, direction: Direction) -> None:
        self.kernels = {name: name for name in LISTED}
        self.ran: set[str] = set()
        self._direction = direction

    def call(self, name: str, *args: Any) -> None:
        """A kernel call with its outs, as `native.Library` has it."""
        count = sum(a.is_out for a in overload(name)._schema.arguments)
        outs = args[-count] if isinstance(args[-1], list) else args[-count:]
        try:
            for out, result in zip(outs, self.results(name, args[:-count], outs), strict=True):
                out.copy_(result)
        except RuntimeError as error:
            raise KernelError(1, str(error)) from error

    def results(self, name: str, args: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        call = OneCall(name, args, outs, dynamic=name in GREATEST_FIRST)
        file = self._direction.write(call.program())
        assert fmt.verify(fmt.read_pte(file)) == []
        self.ran.add(name)
        return self._direction.run(file, call.inputs)


@pytest.mark.parametrize("direction", DIRECTIONS.values(), ids=DIRECTIONS)
def test_each_operator_runs_on_the_runtime_of_the_other_toolchain(direction):
    files = Files(direction)
    checker = Checker(Catalog(files))
    for name in CASES.keys() - direction.exceptions.keys():
        with torch.no_grad(), torch._C._AutoDispatchBelowAutograd(), checker:
            CASES[name].call(*CASES[name].inputs)
    assert checker.failed == {}
    for name in CALLS.keys() - direction.exceptions.keys():
        call = CALLS[name]
        expected = call.results or in_place(name, call.args)
        results = files.results(name, call.args, call.results)
        for result, value in zip(results, expected, strict=True):
            if isinstance(value, torch.Tensor):
                assert (result.shape, result.dtype) == (value.shape, value.dtype), name
            if not call.random:
                torch.testing.assert_close(result, value, msg=lambda text, name=name: f"{name}: {text}")
    assert sorted(LISTED - files.ran) == sorted(direction.exceptions)


def in_place(name: str, args: Sequence[Any]) -> list[torch.Tensor]:
    """Return the first argument as it is after the call."""
    target = args[0].clone()
    if name == "executorch_prim::et_copy_index.tensor":
        target[args[2]] = args[1]
    else:
        overload(name)(target, *args[1:])
    return [target]
