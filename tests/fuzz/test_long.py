"""The long run of the fuzzers: it goes on where it was stopped, and a finding ends it."""

import fcntl
import json
import stat
import sys

import pytest
from fuzz.long import Findings, Fuzzer, Run, statistics

FAKE = """#!{python}
import pathlib, sys
options = dict(word[1:].split("=") for word in sys.argv[1:] if word.startswith("-"))
corpus = next(word for word in sys.argv[1:] if not word.startswith("-"))
with open({calls!r}, "a") as calls:
    calls.write(options["seed"] + "\\n")
known = sum(1 for folder in sys.argv[1:] if not folder.startswith("-") for _ in pathlib.Path(folder).iterdir())
pathlib.Path(corpus, "input-" + options["seed"]).write_bytes(b"x")
if options["seed"] == {crashes!r}:
    pathlib.Path(options["artifact_prefix"] + "crash-1").write_bytes(b"bad")
    sys.exit(77)
print("#%d\\tINITED cov: 5 ft: 6 corp: 1/1b exec/s: 0 rss: 30Mb" % known)
print("#%s\\tDONE   cov: 7 ft: 9 corp: 2/9b lim: 9 exec/s: 0 rss: 40Mb" % options["runs"])
print("stat::peak_rss_mb:              40")
print("stat::inputs_that_ran:          3")
"""
"""A program that prints what libFuzzer prints."""


@pytest.fixture
def fake(tmp_path):
    """Make a fuzzer of 2500 inputs that fails with the seed `crashes`, and a function that returns its calls."""
    calls = tmp_path / "calls"

    def make(crashes=""):
        program = tmp_path / "fuzzer"
        program.write_text(FAKE.format(python=sys.executable, calls=str(calls), crashes=crashes))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return Fuzzer("fake", program, (), 2500)

    return make, lambda: sorted(calls.read_text().split())


def run(fuzzer, tmp_path):
    started = Run([fuzzer], tmp_path / "run", chunk=1000)
    started.go(jobs=2)
    return started


def test_a_run_makes_all_inputs_in_chunks_and_a_repeat_makes_none(fake, tmp_path):
    make, calls = fake
    done = run(make(), tmp_path)
    assert sum(row["inputs"] for row in done.rows) >= 2500
    assert calls() == ["1", "2", "3"]
    assert len(run(make(), tmp_path).rows) == 3
    assert calls() == ["1", "2", "3"]


def test_a_run_goes_on_after_the_chunks_of_the_progress_file(fake, tmp_path):
    make, calls = fake
    row = {"fuzzer": "fake", "seed": 2, "inputs": 1000, "ran": 1, "cpu_seconds": 1.0}
    row |= {"edges": 1, "features": 1, "corpus": 1, "peak_mb": 99}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "progress.jsonl").write_text(json.dumps(row) + "\n" + json.dumps(row)[:20])
    done = run(make(), tmp_path)
    assert calls() == ["1", "3"]
    assert sorted(json.loads(line)["seed"] for line in done.progress.read_text().splitlines()) == [1, 2, 3]
    assert done.table().splitlines()[1].split()[-4:] == ["7", "9", "2", "99"]  # the largest of each number


def test_a_finding_ends_the_run_with_the_command_that_repeats_it(fake, tmp_path):
    make, calls = fake
    with pytest.raises(Findings, match=r"exit code 77.*\nrepeat: .*fuzzer .*-rss_limit_mb=2048.*fake-2-crash-1"):
        run(make(crashes="2"), tmp_path)
    assert "2" not in {str(row["seed"]) for row in Run([make()], tmp_path / "run", chunk=1000).rows}
    assert {row["seed"] for row in run(make(), tmp_path).rows} == {1, 2, 3}
    assert calls().count("2") == 2


def test_two_runs_do_not_share_a_folder(fake, tmp_path):
    make, _ = fake
    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match="another run is going on"):
            run(make(), tmp_path)


def test_the_corpus_of_a_fuzzer_grows_over_its_chunks(fake, tmp_path):
    make, _ = fake
    done = run(make(), tmp_path)
    assert sorted(file.name for file in done.corpus(done.fuzzers[0]).iterdir()) == ["input-1", "input-2", "input-3"]


def test_output_of_a_fuzzer_that_was_cut_off_is_refused():
    with pytest.raises(ValueError, match="has ended"):
        statistics("#3\tINITED cov: 5 ft: 6 corp: 1/1b exec/s: 0 rss: 30Mb\n")
