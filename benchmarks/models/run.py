"""Measure models for which edgecore was not tuned, in fp32 on XNNPACK, next to eager PyTorch.

    python benchmarks/models/run.py [MODEL ...] [--results build/models.jsonl] [--limit 600] [--again]
    python benchmarks/models/run.py --table        writes benchmarks/models/models.md from the results

Each model runs in a child process with a time limit. Its result is a line of JSON in the results file. A model with a
result is skipped; with --again, only if the result is right. Needs timm and transformers in addition to the test
environment.

The error is max|ours - eager| / max|eager| of the worst output. If it is above 1e-4, the model also runs in float64,
and both errors are measured against that result. Times are medians of alternating runs on 2 threads.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import math
import os
import re
import signal
import statistics
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

BOUND = 1e-4
MOVES = 1e-4
"""Minimum relative change of the output for other inputs. If the output is nearly constant, the error says nothing."""
HERE = Path(__file__).resolve().parent


def _flat(result: Any) -> list[Any]:
    import torch

    leaves, _ = torch.utils._pytree.tree_flatten(result)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _error(ours: list[Any], reference: list[Any]) -> float:
    """Return max|difference| / max|reference| of the worst output; infinity for NaN or a wrong shape."""
    worst = 0.0
    for actual, expected in zip(ours, reference, strict=True):
        if actual.shape != expected.shape:
            return float("inf")
        if not expected.numel():
            continue
        largest = float(expected.double().abs().max())
        difference = float((actual.double() - expected.double()).abs().max())
        relative = difference / largest if largest else difference
        worst = max(worst, float("inf") if math.isnan(relative) else relative)
    return worst


def _other(value: Any) -> Any:
    """Return another input of the same shape and dtype, computed from `value`."""
    return value.flip(-1) * 1.5 + 0.5 if value.is_floating_point() else value.roll(1, 1)


def _double(value: Any) -> Any:
    return value.double() if value.is_floating_point() else value


def measure(name: str) -> dict[str, Any]:
    """Measure one model in this process. Return its row."""
    import torch
    import untuned_models

    import edgecore
    from edgecore.errors import EdgecoreError

    torch.set_num_threads(2)
    row: dict[str, Any] = {"model": name, "family": untuned_models.MODELS[name][0]}
    model, inputs = untuned_models.make(name)
    row["parameters"] = sum(parameter.numel() for parameter in model.parameters())
    with torch.no_grad():
        expected = _flat(model(*inputs))
        row["moves"] = _error(_flat(model(*map(_other, inputs))), expected)
    start = time.perf_counter()
    try:
        program = edgecore.compile(model, inputs, backends=["xnnpack"])
        row["compile_s"] = time.perf_counter() - start
        loaded = edgecore.load(program.buffer, threads=2)
        got = _flat(loaded.forward(*inputs))
    except EdgecoreError as error:
        refused = "torch.export could not export" in str(error)
        return row | {"status": "torch.export refuses" if refused else "error", "sentence": str(error)}
    report = program.report()
    row |= {
        "delegates": sum(report.delegates.values()),
        "operators": len(report.rows),
        "outside": sorted({each.operator for each in report.left_outside}),
        "outside_count": len(report.left_outside),
        "error": _error(got, expected),
    }
    if row["error"] > BOUND:
        with torch.no_grad():
            exact = _flat(copy.deepcopy(model).double()(*map(_double, inputs)))
        row |= {"error_to_float64": _error(got, exact), "eager_to_float64": _error(expected, exact)}
    # Accept an error of up to twice the error of eager PyTorch: other orders of summation cause such differences.
    right = row["error"] <= BOUND or row["error_to_float64"] <= max(BOUND, 2 * row["eager_to_float64"])
    row["status"] = "wrong" if not right else "right" if row["moves"] > MOVES else "output does not depend on input"
    ours, eager = [], []
    until = time.perf_counter() + 4
    while len(ours) < 3 or (time.perf_counter() < until and len(ours) < 30):
        for times, run in ((ours, loaded.forward), (eager, model)):
            with torch.no_grad():
                start = time.perf_counter()
                run(*inputs)
            times.append(time.perf_counter() - start)
    return row | {"ms": statistics.median(ours) * 1e3, "eager_ms": statistics.median(eager) * 1e3}


def run_all(names: list[str], results: Path, limit: float, again: bool) -> None:
    """Measure each model in a forked process, so that packages which all models need are imported only once."""
    done = read(results)
    results.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name in done and not (again and done[name]["status"] != "right"):
            continue
        with tempfile.NamedTemporaryFile(mode="r") as answer:
            child = os.fork()
            if child == 0:
                Path(answer.name).write_text(json.dumps(_row(name)))
                os._exit(0)
            status = _wait(child, limit)
            text = answer.read()
        died = f"not done in {limit:.0f} s" if status is None else f"exit status {status}"
        row = json.loads(text) if text else {"model": name, "status": "died", "sentence": died}
        with results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(_summary(row), flush=True)


def _prepare() -> None:
    # PASSIVE: on a shared machine, OpenMP's spinning threads make eager PyTorch up to thirty times slower.
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    sys.path[:0] = [str(HERE.parents[1] / "tests"), str(HERE)]
    import untuned_models

    untuned_models.torchvision_models()
    for module in ("timm", "transformers", "torchao.quantization.pt2e.quantize_pt2e"):
        importlib.import_module(module)
    import torch

    import edgecore

    torch.set_num_threads(1)  # threads do not survive a fork
    edgecore.compile(torch.nn.Linear(2, 2).eval(), torch.ones(1, 2), backends=["xnnpack"])


def _row(name: str) -> dict[str, Any]:
    try:
        return measure(name)
    except Exception as error:
        traceback.print_exc()
        return {"model": name, "status": "exception", "sentence": f"{type(error).__name__}: {error}"}


def _wait(child: int, limit: float) -> int | None:
    """Wait for the process. Return its exit status; None if it was killed at the time limit."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def read(results: Path) -> dict[str, dict[str, Any]]:
    """Read the last row of each model from the results file."""
    if not results.exists():
        return {}
    return {row["model"]: row for row in map(json.loads, results.read_text().splitlines())}


def _summary(row: dict[str, Any]) -> str:
    if "ms" not in row:
        return f"{row['model']}: {row['status']}: {row['sentence']}"
    return (
        f"{row['model']}: {row['status']}, error {row['error']:.1e}, {row['delegates']} delegates, "
        f"{row['outside_count']} of {row['operators']} operators not delegated, {row['ms']:.1f} ms, "
        f"eager {row['eager_ms']:.1f} ms"
    )


TABLE_HEAD = """# Models for which edgecore was not tuned

Random weights, fp32, `backends=["xnnpack"]`, one process for each model; no test, document or other benchmark names
them. Made by `python benchmarks/models/run.py`, then `--table`, on {processor}. Other work shared the
machine's 2 cores: the ratios of alternating runs are more reliable than the times. The column s is the time of
`torch.export` and lowering together.

The error is max|ours - eager| / max|eager| of the worst output. If it is above 1e-4, both results are compared with the
same model in float64: the status is right if edgecore's error is at most twice that of eager PyTorch.

{count}

| model | family | parameters | status | error | delegates | not delegated | s | ms | eager ms | ratio |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def table(rows: list[dict[str, Any]]) -> str:
    """Make the page `models.md` from the results."""
    statuses = [row["status"] for row in rows]
    count = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(sorted(statuses)))
    lines, notes = [], []
    for row in rows:
        start = [row["model"], row.get("family", ""), _millions(row.get("parameters"))]
        if "ms" not in row:
            lines.append([*start, row["status"], *[""] * 7])
            sentence = re.sub(r"[^\s(]*/site-packages/", "", " ".join(row["sentence"].split()))
            notes.append(f"- {row['model']}: {sentence}")
            continue
        outside = f"{row['outside_count']} of {row['operators']}"
        if row["outside"]:
            outside += f": {', '.join(operator.removeprefix('aten.') for operator in row['outside'])}"
        times = [f"{row['compile_s']:.1f}", f"{row['ms']:.1f}", f"{row['eager_ms']:.1f}"]
        ratio = f"{row['ms'] / row['eager_ms']:.2f}"
        lines.append([*start, row["status"], f"{row['error']:.0e}", str(row["delegates"]), outside, *times, ratio])
        if "error_to_float64" in row:
            notes.append(
                f"- {row['model']}: the error against float64 is {row['error_to_float64']:.1e}, "
                f"that of eager {row['eager_to_float64']:.1e}"
            )
    head = TABLE_HEAD.format(processor=_processor(), count=f"{len(rows)} models: {count}.")
    body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return head + body + ("\n" + "\n".join(notes) + "\n" if notes else "")


def _millions(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:.1f} M"


def _processor() -> str:
    text = Path("/proc/cpuinfo").read_text()
    return next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")), "?")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="all by default")
    parser.add_argument("--results", type=Path, default=HERE.parent / "build/models.jsonl")
    parser.add_argument("--limit", type=float, default=600, help="time limit in seconds for each model")
    parser.add_argument("--again", action="store_true", help="repeat models whose result is not right")
    parser.add_argument("--table", action="store_true", help="only write benchmarks/models/models.md from the results")
    arguments = parser.parse_args()
    _prepare()
    import untuned_models

    names = arguments.models or list(untuned_models.MODELS)
    if arguments.table:
        rows = read(arguments.results)
        (HERE / "models.md").write_text(table([rows[name] for name in names if name in rows]))
    else:
        run_all(names, arguments.results, arguments.limit, arguments.again)


if __name__ == "__main__":
    main()
