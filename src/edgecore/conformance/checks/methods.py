"""Check files with several methods, several loaded copies of one file, and calls from several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import torch

import edgecore
from edgecore.conformance.check import BackendUnderTest, Check, Failed
from edgecore.conformance.checks.networks import delegated
from edgecore.conformance.programs import check_results, compiled, eager, load, network_model, outputs
from edgecore.conformance.samples.network_models import NETWORKS, Inputs

THREADS = 4


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield one check for each combination of methods, copies and threads."""
    yield Check("methods/several methods", several_methods, needs_run=True)
    single = "edgecore-run loads one file in a process"
    yield Check("methods/several instances", several_instances, needs_run=True, in_process=single)
    yield Check("methods/thread counts", thread_counts, needs_run=True)
    called = "edgecore-run makes one call at a time"
    yield Check("methods/threads, a model each", threads_with_models, needs_run=True, in_process=called)
    yield Check("methods/threads, one model", threads_with_one_model, needs_run=True, in_process=called)


def several_methods(subject: BackendUnderTest) -> str:
    """Check a file that has each network of the suite as a method; two methods are the MLP and share its weights."""
    models, inputs = _methods(subject)
    loaded = load(subject, compiled(subject, models, inputs))
    for _ in range(2):
        for name, model in models.items():
            subject.trying(f"method {name}")
            check_results(subject, f"method {name}", outputs(loaded[name](*inputs[name])), eager(model, inputs[name]))
    return ", ".join(models)


def several_instances(subject: BackendUnderTest) -> str:
    """Check that three loaded copies of a file do not affect each other.

    The copies run alternately with different inputs. One copy is destroyed after each round; the rest must still work.
    """
    name, model, inputs, program = delegated(subject)
    copies = [load(subject, program) for _ in range(3)]
    for round_ in range(3):
        for index, copy in enumerate(copies):
            subject.trying(f"{name}, copy {index}, call {round_}")
            scaled = _scaled(inputs, 1 + index + round_)
            check_results(subject, f"{name}, copy {index}", outputs(copy.forward(*scaled)), eager(model, scaled))
        copies.pop()
    return f"3 copies of {name}"


def thread_counts(subject: BackendUnderTest) -> str:
    """Check that a program loaded with threads=1, 2 and 5 gives the results of eager PyTorch each time."""
    name, model, inputs, program = delegated(subject)
    for threads in (1, 2, 5):
        subject.trying(f"{name}, threads={threads}")
        got = outputs(load(subject, program, threads=threads).forward(*inputs))
        check_results(subject, f"{name}, threads={threads}", got, eager(model, inputs))
    return f"{name} with 1, 2 and 5 threads"


def threads_with_models(subject: BackendUnderTest) -> str:
    """Load and run a separate copy of the program in each of several threads."""
    name, model, inputs, program = delegated(subject)
    calls = 5 if subject.quick else 20

    def run_copy(number: int) -> None:
        scaled = _scaled(inputs, 1 + number)
        copy = load(subject, program, threads=2)
        want = eager(model, scaled)
        for _ in range(calls):
            check_results(subject, f"{name} in thread {number}", outputs(copy.forward(*scaled)), want)

    subject.trying(f"{name} in {THREADS} threads")
    _at_once(run_copy)
    return f"{THREADS} threads, {calls} calls each"


def threads_with_one_model(subject: BackendUnderTest) -> str:
    """Call the methods of one loaded program from several threads: different methods, and the same method twice."""
    models, inputs = _methods(subject)
    loaded = load(subject, compiled(subject, models, inputs), threads=2)
    names = list(models)
    calls = 5 if subject.quick else 20

    def run_method(number: int) -> None:
        name = names[number % len(names)]
        scaled = _scaled(inputs[name], 1 + number)
        want = eager(models[name], scaled)
        for _ in range(calls):
            check_results(subject, f"method {name} in thread {number}", outputs(loaded[name](*scaled)), want)

    subject.trying(f"methods {', '.join(names)} of one file in {2 * THREADS} threads")
    _at_once(run_method, 2 * THREADS)
    return f"{2 * THREADS} threads, {calls} calls each"


def _methods(subject: BackendUnderTest) -> tuple[dict[str, torch.nn.Module], dict[str, Inputs]]:
    networks = {name: network_model(subject, name) for name in NETWORKS}
    models = {name: model for name, (model, _) in networks.items()}
    inputs = {name: arguments for name, (_, arguments) in networks.items()}
    models["mlp_again"], inputs["mlp_again"] = models["mlp"], _scaled(inputs["mlp"], 3)
    return models, inputs


def _scaled(inputs: Inputs, number: int) -> Inputs:
    return tuple(tensor * (0.5 + number / 8) for tensor in inputs)


def _at_once(function: Callable[[int], None], count: int = THREADS) -> None:
    """Call `function(0)` to `function(count - 1)`, each in a thread, and raise the first exception of any thread."""
    problems: list[BaseException] = []
    start = threading.Barrier(count)

    def guarded(number: int) -> None:
        start.wait()
        try:
            function(number)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for problem in problems:
        if isinstance(problem, (Failed, edgecore.errors.EdgecoreError)):
            raise problem
        raise Failed(f"in a thread: {type(problem).__name__}: {problem}") from problem
