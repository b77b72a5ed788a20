from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest
from fault_package import fault_folder  # noqa: F401
from sweep_files import MODEL, write_nets

import edgecore
from edgecore.errors import EdgecoreError
from edgecore.sweeps import read_results
from edgecore.sweeps.pools import pools
from edgecore.sweeps.step import StepResult


@pytest.fixture(autouse=True)
def nets(tmp_path, monkeypatch):
    pytest.importorskip("edgecore_xnnpack")
    write_nets(tmp_path, monkeypatch)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")


def test_the_table_equals_single_calls_and_a_second_sweep_computes_nothing(tmp_path, monkeypatch):
    options = {"models": {"small": MODEL}, "backends": ["xnnpack"], "recipes": ["float", "int8"], "runs": 5}
    done = edgecore.sweep(options, "out", jobs=2)
    assert done.ok, str(done)
    monkeypatch.syspath_prepend(tmp_path)
    import sweep_nets

    model, inputs = sweep_nets.small()
    for row, recipe in zip(done.rows, (None, "int8"), strict=True):
        calibration = sweep_nets.samples() if recipe else None
        program = edgecore.compile(model, inputs, backends=["xnnpack"], quantize=recipe, calibration=calibration)
        assert row.sqnr_db == pytest.approx(min(one.eager.sqnr for one in program.compare(model).rows), abs=0.01)
        assert row.file_bytes == (tmp_path / "out" / row.file).stat().st_size
        assert abs(row.file_bytes - len(program.buffer)) < 500  # paths of sources differ
        assert row.delegated == 1 and row.delegates == 1 and row.median_ms > 0 and not row.cached
        assert row.float_accuracy == pytest.approx(sweep_nets.accuracy(model))
        assert "<html" in (tmp_path / "out" / row.report).read_text()
    again = edgecore.sweep(options, "out")
    assert all(row.cached for row in again.rows)
    assert [row.median_ms for row in again.rows] == [row.median_ms for row in done.rows]
    assert read_results("out") == list(again.rows)


@pytest.mark.slow
def test_cells_that_eat_memory_hang_die_or_print_are_contained(tmp_path):
    models = {name: {"source": f"sweep_nets:{name}"} for name in ("hungry", "dies", "chatty", "missing")}
    limits = {"seconds": 120, "memory_mb": 1500}
    done = edgecore.sweep({"models": models, "backends": ["kernels"], "runs": 0, "limits": limits}, "out", jobs=2)
    reasons = {row.model: row.reason for row in done.rows if row.status == "failed"}
    assert list(reasons) == ["hungry", "dies", "missing"]
    assert "more memory than the limit of 1,500 MiB" in reasons["hungry"] and "SIGSEGV" in reasons["dies"]
    assert "no function 'missing'" in reasons["missing"]
    assert sum(file.stat().st_size for file in (tmp_path / "out").rglob("*.json")) < 100_000


@pytest.mark.slow
def test_a_cell_that_hangs_is_tried_again_with_a_larger_limit_only(tmp_path):
    def sweep(seconds):
        options = {"models": ["sweep_nets:hangs"], "backends": ["kernels"], "limits": {"seconds": seconds}}
        return edgecore.sweep(options, "out").rows[0]

    assert "does not end within the limit of 4 s" in sweep(4).reason
    assert sweep(3).cached and sweep(4).cached
    (tmp_path / "sweep_nets.py").write_text("def hangs():\n    raise ValueError('fixed')\n")
    assert "fixed" in sweep(60).reason


def test_two_sweeps_do_not_write_into_one_folder(tmp_path):
    import fcntl

    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(EdgecoreError, match="another sweep is writing into out"):
            edgecore.sweep({"models": ["sweep_nets:small"], "backends": ["kernels"]}, "out")


def test_a_sweep_without_a_way_to_hold_its_folder_is_one_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(EdgecoreError, match="Linux and macOS"):
        edgecore.sweep({"models": ["sweep_nets:small"], "backends": ["kernels"]}, "out")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac runs what Core ML's backend makes")
def test_a_file_that_this_machine_cannot_run_is_made_with_its_sizes(tmp_path):
    pytest.importorskip("edgecore_coreml")
    options = {"models": ["sweep_nets:small"], "backends": ["coreml"], "runs": 3}
    done = edgecore.sweep(options, "out")
    row = done.rows[0]
    assert done.ok and row.status == "made" and "needs macOS" in row.reason
    assert row.file_bytes == (tmp_path / "out" / row.file).stat().st_size and row.delegated == 1
    assert row.sqnr_db is None and row.median_ms is None
    assert (
        edgecore.sweep(options, "out").rows[0].cached and not edgecore.sweep(options, "out", retry=True).rows[0].cached
    )


@pytest.mark.slow
def test_a_recipe_that_quantizes_nothing_of_a_model_is_skipped():
    options = {"models": ["sweep_nets:pooling"], "backends": ["xnnpack"], "recipes": ["int8-weights"], "runs": 3}
    done = edgecore.sweep(options, "out")
    row = done.rows[0]
    assert done.ok and row.status == "skipped" and row.median_ms is None
    assert (
        row.reason
        == "quantize='int8-weights': the model has no linear layer with a constant weight of float32 or float16"
    )


@pytest.mark.slow
def test_a_library_for_another_version_of_edgecore_is_a_failure_with_its_sentence(fault_folder, monkeypatch):  # noqa: F811
    monkeypatch.syspath_prepend(fault_folder)
    monkeypatch.setenv("EDGECORE_TOY_FAULT", "version")
    done = edgecore.sweep({"models": ["sweep_nets:small"], "backends": ["fault"], "runs": 0}, "out")
    assert done.rows[0].status == "failed" and "was built for version 7." in done.rows[0].reason, str(done)


def test_a_failure_of_the_place_is_a_row_that_the_next_sweep_computes_again(monkeypatch):
    options = {"models": ["sweep_nets:small"], "backends": ["kernels"], "runs": 0}
    with monkeypatch.context() as patch:
        patch.setattr(pools, "run_step", lambda *_: StepResult("failed", "its node was lost", transient=True))
        row = edgecore.sweep(options, "out").rows[0]
    assert (row.status, row.reason, row.cached) == ("failed", "its node was lost", False)
    row = edgecore.sweep(options, "out").rows[0]
    assert (row.status, row.cached) == ("ok", False), row.reason


@pytest.mark.slow
def test_kernels_have_int8_for_their_runtime_and_a_recipe_of_weights_gets_no_samples():
    # The weights of kernels without a delegate stay in float: only their runtime has integer kernels.
    options = {
        "models": {"small": MODEL}, "backends": ["kernels", "xnnpack"], "recipes": ["int8", "int8-weights"],
        "runtimes": ["edgecore"], "runs": 0, "exclude": [{"backend": "kernels", "recipe": "int8-weights"}],
    }  # fmt: skip
    done = edgecore.sweep(options, "out")
    assert [(row.backend, row.recipe, row.status) for row in done.rows] == [
        ("kernels", "int8", "ok"), ("xnnpack", "int8", "ok"), ("xnnpack", "int8-weights", "ok"),
    ], str(done)  # fmt: skip


class Planned:
    def planned(self, plan, known, seconds, unknown):
        self.seen = known, seconds > 0, unknown

    def begun(self, step):
        pass

    def ended(self, step, result, left):
        raise KeyboardInterrupt


@pytest.mark.slow
def test_the_estimate_of_an_interrupted_sweep_uses_the_cells_that_it_has_finished():
    options = {"models": ["sweep_nets:small"], "backends": ["kernels", "xnnpack"], "runs": 0}
    listener = Planned()
    seen = []
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            edgecore.sweep(options, "out", jobs=1, listener=listener)
        seen.append(listener.seen)
    assert seen == [(0, False, 2), (1, True, 0)]


@pytest.mark.full
def test_a_sweep_that_is_killed_five_times_ends_with_the_same_table_and_no_cell_is_done_twice(tmp_path):
    (tmp_path / "s.toml").write_text(
        'models = ["sweep_nets:small"]\nbackends = ["xnnpack", "kernels"]\nrecipes = ["float", "int8-dynamic"]\n'
        'runs = 3\n[[exclude]]\nbackend = "kernels"\nrecipe = "int8*"\n'
    )
    command = [sys.executable, "-m", "edgecore", "sweep", "s.toml", "--jobs", "1", "-o"]
    chance = random.Random(7)

    def results():
        found = (tmp_path / "killed").glob("cells/*/*.json")
        return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns)
                for path in found if ".partial" not in path.parent.name and path.name != "step.json"}  # fmt: skip

    finished = {}
    for number in range(5):  # of six steps: three files, three times
        child = subprocess.Popen([*command, "killed"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while child.poll() is None and len(results()) < number:
            time.sleep(0.1)
        time.sleep(chance.uniform(0, 2))
        child.kill()
        assert child.wait() == -signal.SIGKILL, "the sweep ended before it was killed"
        time.sleep(0.5)  # its last process dies
        now = results()
        assert finished.items() <= now.items(), "a cell was done twice"
        finished = now
    assert subprocess.run([*command, "killed"], capture_output=True).returncode == 0
    assert len(finished) >= 4 and finished.items() <= results().items(), "a cell was done twice"
    assert subprocess.run([*command, "whole"], capture_output=True).returncode == 0
    tables = [
        [
            (row.cell, row.status, row.file_bytes, row.planned_bytes, row.sqnr_db, row.delegated)
            for row in read_results(folder)
        ]
        for folder in ("killed", "whole")
    ]
    assert tables[0] == tables[1] and len(tables[0]) == 3
