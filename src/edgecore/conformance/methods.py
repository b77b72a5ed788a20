"""Several methods in a file, several loaded copies of it, several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import torch

import edgecore
from edgecore.conformance.check import BackendUnderTest, Check, Failed
from edgecore.conformance.networks import NETWORKS, Inputs, delegated
from edgecore.conformance.programs import check_results, compiled, eager, load, outputs

THREADS = 4


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """A row for each way of being several."""
    yield Check("methods/several methods", several_methods, needs_run=True)
    yield Check("methods/several instances", several_instances, needs_run=True)
    yield Check("methods/thread counts", thread_counts, needs_run=True)
    yield Check("methods/threads, a model each", threads_with_models, needs_run=True)
    yield Check("methods/threads, one model", threads_with_one_model, needs_run=True)


def several_methods(subject: BackendUnderTest) -> str:
    """All networks as methods of one file, and one of them twice with the same weights."""
    models, inputs = _methods()
    loaded = load(subject, compiled(subject, models, inputs))
    for _ in range(2):
        for name, model in models.items():
            subject.trying(f"method {name}")
            check_results(subject, f"method {name}", outputs(loaded[name](*inputs[name])), eager(model, inputs[name]))
    return ", ".join(models)


def several_instances(subject: BackendUnderTest) -> str:
    """The same file loaded three times; the copies run in turn, each with inputs of its own, and end one by one."""
    name, model, inputs, program = delegated(subject)
    copies = [load(subject, program) for _ in range(3)]
    for round_ in range(3):
        for index, copy in enumerate(copies):
            subject.trying(f"{name}, copy {index}, call {round_}")
            own = _scaled(inputs, 1 + index + round_)
            check_results(subject, f"{name}, copy {index}", outputs(copy.forward(*own)), eager(model, own))
        copies.pop()
    return f"3 copies of {name}"


def thread_counts(subject: BackendUnderTest) -> str:
    """One thread or several compute the same."""
    name, model, inputs, program = delegated(subject)
    for threads in (1, 2, 5):
        subject.trying(f"{name}, threads={threads}")
        got = outputs(load(subject, program, threads=threads).forward(*inputs))
        check_results(subject, f"{name}, threads={threads}", got, eager(model, inputs))
    return f"{name} with 1, 2 and 5 threads"


def threads_with_models(subject: BackendUnderTest) -> str:
    """Each thread loads and runs a copy of its own."""
    name, model, inputs, program = delegated(subject)
    calls = 5 if subject.quick else 20

    def work(number: int) -> None:
        own = _scaled(inputs, 1 + number)
        copy = load(subject, program, threads=2)
        want = eager(model, own)
        for _ in range(calls):
            check_results(subject, f"{name} in thread {number}", outputs(copy.forward(*own)), want)

    subject.trying(f"{name} in {THREADS} threads")
    _at_once(work)
    return f"{THREADS} threads, {calls} calls each"


def threads_with_one_model(subject: BackendUnderTest) -> str:
    """The threads share a file: different methods at the same time, and the same one in turns."""
    models, inputs = _methods()
    loaded = load(subject, compiled(subject, models, inputs), threads=2)
    names = list(models)
    calls = 5 if subject.quick else 20

    def work(number: int) -> None:
        name = names[number % len(names)]
        own = _scaled(inputs[name], 1 + number)
        want = eager(models[name], own)
        for _ in range(calls):
            check_results(subject, f"method {name} in thread {number}", outputs(loaded[name](*own)), want)

    subject.trying(f"methods {', '.join(names)} of one file in {2 * THREADS} threads")
    _at_once(work, 2 * THREADS)
    return f"{2 * THREADS} threads, {calls} calls each"


def _methods() -> tuple[dict[str, torch.nn.Module], dict[str, Inputs]]:
    made = {name: make() for name, make in NETWORKS.items()}
    models = {name: model for name, (model, _) in made.items()}
    inputs = {name: given for name, (_, given) in made.items()}
    models["mlp_again"], inputs["mlp_again"] = models["mlp"], _scaled(inputs["mlp"], 3)
    return models, inputs


def _scaled(inputs: Inputs, number: int) -> Inputs:
    return tuple(tensor * (0.5 + number / 8) for tensor in inputs)


def _at_once(work: Callable[[int], None], count: int = THREADS) -> None:
    """Raise the first problem of any thread."""
    problems: list[BaseException] = []
    start = threading.Barrier(count)

    def guarded(number: int) -> None:
        start.wait()
        try:
            work(number)
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
