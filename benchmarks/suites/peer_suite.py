"""Run the XNNPACK tests or the compiler's tests of executorch's wheel on edgecore, through `edgecore.executorch`.

    python benchmarks/suites/peer_suite.py xnnpack|compiler [--executorch] [PATTERN ...]

The tests and their harness come from the wheel. All other modules of ExecuTorch come from edgecore's compatibility
module, so that lowering, quantizers, partitioners and the runtime are edgecore's. `--executorch` runs the same tests on
executorch itself. A PATTERN such as `conv` selects the tests with this text in their names. A test that needs a name of
ExecuTorch for which edgecore has no counterpart is counted separately, with the name. Checks of graph text look for
edgecore's spelling of an operator. The exit status is 1 if a test fails, or if no test passes.
"""

from __future__ import annotations

import re
import sys
import unittest
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import pytest
import torch
from torch.testing import FileCheck

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from zoo import torchvision_models

SUITES = {
    "xnnpack": ["backends/xnnpack/test/ops", "backends/xnnpack/test/fragments"],
    "compiler": ["exir/tests", "exir/program/test", "exir/emit/test", "exir/backend/test"],
}
OF_WHEEL = (
    "executorch.backends.xnnpack.test",
    "executorch.backends.test",
    "executorch.exir.tests",
    *("executorch.exir.program.test", "executorch.exir.emit.test", "executorch.exir.backend.test"),
)
"""The modules of the tests and of their harness, which are imported from the wheel."""

LIBRARIES = ("aten", "quantized_decomposed", "dim_order_ops")


class NoCounterpart(Exception):
    """A test has used a name of ExecuTorch that edgecore does not have."""


class _Missing(type):
    """The metaclass of stand-ins for names without counterpart: their import works, but their use raises an error."""

    def _raise(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NoCounterpart(cls.__name__)

    __call__ = _raise

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return missing(f"{cls.__name__}.{name}")


class Blob(torch.nn.Module):
    """A stand-in for `LoweredBackendModule`: a file of test models constructs one from a made-up blob when imported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, *args: Any) -> NoReturn:
        """Raise NoCounterpart."""
        raise NoCounterpart("executorch.exir.lowered_backend_module.LoweredBackendModule()")


def missing(name: str) -> _Missing:
    """Return a stand-in for the name of ExecuTorch without counterpart."""
    return _Missing(name, (), {})


class Finder:
    """A finder that imports tests from the wheel, and all other modules of ExecuTorch by edgecore's finder `compat`.

    Names that `compat` lacks become stand-ins.
    """

    def __init__(self, wheel: Path, compat: Any) -> None:
        self.wheel = wheel
        self.compat = compat

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module of executorch; None for all other modules."""
        if fullname.partition(".")[0] != "executorch":
            return None
        if any(fullname == name or fullname.startswith(f"{name}.") for name in OF_WHEEL):
            at = self.wheel.joinpath(*fullname.split(".")[1:])
            return PathFinder.find_spec(fullname, [str(at.parent)])
        return ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return a module with edgecore's counterparts of the names in a module of ExecuTorch."""
        module: ModuleType = self.compat.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its counterparts, and stand-ins for all other names."""
        self.compat.exec_module(module)
        of_compat = module.__getattr__

        def of_module(name: str) -> Any:
            try:
                return of_compat(name)
            except (AttributeError, ImportError):
                if name.startswith("__"):
                    raise AttributeError(name) from None
                return missing(f"{module.__name__}.{name}")

        module.__getattr__ = of_module  # type: ignore[method-assign]


def on_edgecore(wheel: Path) -> None:
    """Make the imports of the tests return edgecore's counterparts, and adapt the harness to these counterparts."""
    import edgecore.executorch
    from edgecore.pipeline import ExecutorchProgramManager

    edgecore.executorch.install()
    sys.meta_path.insert(0, Finder(wheel, sys.meta_path[0]))  # type: ignore[arg-type]
    import executorch.backends.test.harness.tester as harness

    harness.FileCheck = torch.testing.FileCheck = Check  # type: ignore[attr-defined,assignment,misc]
    unittest.TestCase.assertEqual = spelled(unittest.TestCase.assertEqual)  # type: ignore[method-assign]
    from executorch.backends.test.harness.stages import partition

    partition.validation_disabled = nullcontext
    harness.get_memory_format = memory_format
    import executorch.exir.lowered_backend_module as lowered

    lowered.LoweredBackendModule = Blob  # type: ignore[attr-defined]
    output = property(lambda manager: SimpleNamespace(program=manager.executorch_program))
    ExecutorchProgramManager._emitter_output = output  # type: ignore[attr-defined]


class Check:
    """A FileCheck for the harness, which translates ExecuTorch's spelling of operators to edgecore's spelling."""

    def __init__(self) -> None:
        self.check_ = FileCheck()

    def __getattr__(self, name: str) -> Any:
        def add(text: str, *args: Any, **kwargs: Any) -> Check:
            getattr(self.check_, name)(spelling(text), *args, **kwargs)
            return self

        return add

    def run(self, code: str) -> None:
        """Raise RuntimeError if a check fails for the text."""
        self.check_.run(code)


def memory_format(dim_order: list[int]) -> torch.memory_format:
    """Return the memory format of a tensor's dim order."""
    return torch.channels_last if dim_order == [0, 2, 3, 1] else torch.contiguous_format


def spelling(text: str) -> str:
    """Return the spelling of an operator in the code of edgecore's graphs, from ExecuTorch's spelling."""
    if text.endswith("executorch_call_delegate"):
        return "edgecore_ir_delegate_call_delegate"
    prefix = "executorch_exir_dialects_edge__ops_"
    if not text.startswith(prefix):
        return text
    library = next((one for one in LIBRARIES if text.startswith(f"{prefix}{one}_")), "")
    operator = text.removeprefix(f"{prefix}{library}_")
    packet, _, overload = operator.rpartition("_")
    has_overload = hasattr(getattr(torch.ops, library), packet)
    return f"torch.ops.{library}.{packet}.{overload}" if has_overload else f"torch.ops.{library}.{operator}"


def spelled(check: Callable[..., None]) -> Callable[..., None]:
    """Return an assertEqual that expects edgecore's names of operators in blobs of test backends: without "aten."."""

    def wanted(self: unittest.TestCase, first: Any, second: Any, msg: Any = None) -> None:
        is_blob = isinstance(second, str) and "WithPreprocessAll#" in second
        check(self, first, re.sub("(?<=[#:])aten\\.", "", second) if is_blob else second, msg)

    return wanted


class Plugin:
    """A plugin of pytest that counts the outcomes."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Dir:
        """Collect a package as a folder: pytest would import the wheel's packages around the tests."""
        return pytest.Dir.from_parent(parent, path=path)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Count the outcome of a test, and print why it did not pass."""
        report = yield
        if call.when == "call" or not report.passed:
            error = call.excinfo.value if call.excinfo is not None else None
            outcome = "without counterpart" if isinstance(error, NoCounterpart) else report.outcome
            self.outcomes[outcome] += 1
            if isinstance(error, NoCounterpart):
                self.missing[str(error)] += 1
            if error is not None:
                lines = (str(error).strip() or repr(error)).splitlines()
                print(f"{item.nodeid}: {outcome}: {type(error).__name__}: {' '.join(lines)[:300]}", flush=True)
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Print why a file of tests cannot be imported."""
        if report.failed:
            error = str(report.longrepr).strip().splitlines()[-1]
            has_none = "NoCounterpart" in error or "edgecore has no counterpart" in error
            self.outcomes["files without counterpart" if has_none else "files failed"] += 1
            print(f"{report.nodeid}: {error}", flush=True)


def main(arguments: list[str]) -> int:
    """Run the tests and print the counts. Return the exit status."""
    suite, flags, patterns = arguments[0], [a for a in arguments if a[0] == "-"], arguments[1:]
    torchvision_models()
    wheel = Path(next(iter(find_spec("executorch").submodule_search_locations)))  # type: ignore
    if not flags:
        on_edgecore(wheel)
    plugin = Plugin()
    options = [
        "-q",
        "-s",
        "--no-header",
        "--tb=no",
        "--no-summary",
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "-o",
        "consider_namespace_packages=true",
    ]
    options += ["-c", "/dev/null", "-W", "ignore", "--rootdir", str(wheel), "--import-mode=importlib"]
    options += ["--continue-on-collection-errors", "-k", " or ".join(p for p in patterns if p not in flags)]
    pytest.main([*options, *(str(wheel / folder) for folder in SUITES[suite])], plugins=[plugin])
    for outcome, count in plugin.outcomes.most_common():
        print(f"{outcome}: {count}")
    for name, count in plugin.missing.most_common():
        print(f"without counterpart: {name}: {count}")
    return int(bool(plugin.outcomes["failed"]) or not plugin.outcomes["passed"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
