"""Run the operator tests that executorch's wheel brings on edgecore, with and without its XNNPACK backend.

    python benchmarks/suites/operator_suite.py [FLOW] [PATTERN ...]

FLOW is `portable` or `xnnpack` (edgecore's files on its own runtime), `stock` (files without a backend on executorch's
runtime), or `executorch` or `executorch_xnnpack` (executorch's own lowering and runtime). Without it, `portable` and
`xnnpack` run. A PATTERN such as `pool` selects the tests with this text in their names. The tests compare with eager
PyTorch on random inputs. The accepted difference is 0.001 + 0.1 % here; for executorch, the suite accepts 0.1 + 4 %. A
test is skipped if PyTorch cannot run or export its module, or if the suite skips it. The exit status is 1 if a test
fails that is not among `EXCEPTIONS`, or if no test runs.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import executorch.backends.test.suite.operators as suite
import pytest
import torch
from executorch.backends.test.suite.flow import all_flows
from executorch.backends.test.suite.runner import run_test
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer
from torch.utils._pytree import tree_leaves

import edgecore

TOLERANCE: dict[str, Any] = {"atol": 1e-3, "rtol": 1e-3, "equal_nan": True, "check_stride": False}
BACKENDS = {"portable": [], "stock": [], "xnnpack": ["xnnpack"]}
PEERS = {"executorch": "portable", "executorch_xnnpack": "xnnpack"}

EXCEPTIONS = {
    "test_embedding_bag_include_last_offset": "its last offset is not the number of indices, as PyTorch demands: "
    "eager divides the sum of four rows by eight; executorch has no kernel for it",
}
"""Tests that fail in all flows, and why."""


class Runner:
    """The object that a test of the suite receives as `test_runner`: it compiles and runs a module in one flow."""

    def __init__(self, flow: str, name: str) -> None:
        self.flow = flow
        self.name = name
        self._flow = all_flows()[PEERS.get(flow, "portable")]  # tests of LSTMs read whether this flow quantizes

    def lower_and_run_model(
        self,
        model: torch.nn.Module,
        inputs: tuple[Any, ...],
        generate_random_test_inputs: bool = True,
        dynamic_shapes: Any = None,
    ) -> None:
        """Compile a module and compare a run with eager PyTorch; skip the test if PyTorch itself cannot run it.

        The method has the name and the parameters with which the suite calls it.
        """
        if self.flow in PEERS:
            self._run_peer(model, inputs, generate_random_test_inputs, dynamic_shapes)
            return
        torch.manual_seed(0)
        model = model.eval()
        try:
            model(*inputs)
            exported = torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes, strict=True)
        except Exception as error:
            pytest.skip(f"PyTorch: {error}")
        program = edgecore.compile(exported, backends=BACKENDS[self.flow])
        if generate_random_test_inputs:
            inputs = tuple(_random_like(tensor) for tensor in inputs)
        expected, flat = tree_leaves(exported.module()(*inputs)), tree_leaves(inputs)
        buffer = program.buffer  # keep these bytes and `loaded` alive: executorch's results point into both
        if self.flow == "stock":
            loaded = _load_for_executorch_from_buffer(buffer)
            actual = loaded.run_method("forward", flat)
        else:
            actual = tree_leaves(edgecore.load(buffer).forward(*flat))
        torch.testing.assert_close(list(actual), expected, **TOLERANCE)

    def _run_peer(self, model: torch.nn.Module, inputs: Any, random: bool, dynamic_shapes: Any) -> None:
        summary = run_test(model, inputs, self._flow, self.name, self.name, 0, None, dynamic_shapes, random)
        if summary.result.is_backend_failure():
            raise RuntimeError(str(summary.result)) from summary.error
        if not summary.result.is_success():
            pytest.skip(str(summary.result))


def _random_like(tensor: torch.Tensor) -> torch.Tensor:
    layout = torch.channels_last if tensor.dim_order() == (0, 2, 3, 1) else torch.contiguous_format
    return torch.randn(tensor.shape).to(tensor.dtype).contiguous(memory_format=layout)


class Plugin:
    """A plugin of pytest that provides `test_runner` and counts the outcomes by flow."""

    def __init__(self, flows: list[str]) -> None:
        self.flows = flows
        self.outcomes: dict[str, Counter[str]] = {flow: Counter() for flow in flows}
        self.has_unexpected = False

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test once for each flow."""
        if "test_runner" in metafunc.fixturenames:
            metafunc.parametrize("test_runner", self.flows, indirect=True)

    @pytest.fixture
    def test_runner(self, request: pytest.FixtureRequest) -> Runner:
        """Provide the runner of a test."""
        return Runner(request.param, request.node.originalname)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Count the outcome of a test, and print the message of a failure or of PyTorch."""
        report = yield
        if call.when == "call":
            flow = item.callspec.params["test_runner"]  # type: ignore[attr-defined]
            self.outcomes[flow][report.outcome] += 1
            self.has_unexpected |= report.failed and item.originalname not in EXCEPTIONS  # type: ignore[attr-defined]
            if not report.passed and call.excinfo is not None:
                error = call.excinfo.value.__cause__ or call.excinfo.value
                first = (str(error).strip() or repr(error)).splitlines()[0]
                reason = EXCEPTIONS.get(item.originalname, first)  # type: ignore[attr-defined]
                print(f"{item.name}: {report.outcome}: {type(error).__name__}: {reason}", flush=True)
        return report


def main(arguments: list[str]) -> int:
    """Run the tests and print the counts of each flow. Return the exit status."""
    flows = [name for name in arguments if name in BACKENDS or name in PEERS] or ["portable", "xnnpack"]
    patterns = [name for name in arguments if name not in flows]
    plugin = Plugin(flows)
    options = ["-q", "-s", "--no-header", "--tb=no", "--no-summary", "--noconftest", "-p", "no:cacheprovider"]
    options += ["-c", "/dev/null", "-W", "ignore", "--rootdir", str(Path(suite.__file__).parent)]
    status = pytest.main([*options, "-k", " or ".join(patterns), str(Path(suite.__file__).parent)], plugins=[plugin])
    for flow, counts in plugin.outcomes.items():
        print(f"{flow}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    has_run = status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return int(plugin.has_unexpected or not has_run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
