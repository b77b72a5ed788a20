"""Time networks with each value of edgecore-xnnpack's load option `winograd`, or measure their errors.

    python benchmarks/winograd.py [MODEL ...] [--threads 1] [--rounds 25]      MODEL: a name of tests/zoo.py, or vgg16
    python benchmarks/winograd.py [MODEL ...] --errors              by default: all networks of tests/zoo.py

vgg16 is the stack of 3x3 convolutions before the linear layers. The three loads run in turns in one process. The times
are the smallest ones of CPU time, of all threads together. An error is the root of the mean square difference from the
network in float64, relative to the root mean square of its outputs, over 8 inputs. Exit status 1 if that of a network is
more than `BOUNDS` allow of that of `off`, or if results differ between two runs, or between one and two threads.
"""

import argparse
import copy
import sys
import time
from pathlib import Path
from typing import Any

import torch

import edgecore

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from zoo import ALL, Example, make, other_inputs, torchvision_models

VALUES = ("off", "accurate", "on")
INPUTS = 8
BOUNDS = (1.0, 1.05, 3.0)
"""Largest ratio of an error to that of `off`, for each of `VALUES`."""


def network(name: str) -> Example:
    """A network and its inputs."""
    if name != "vgg16":
        return make(name)
    torch.manual_seed(0)
    return torchvision_models().vgg16(init_weights=False).features.eval(), (torch.randn(1, 3, 224, 224),)


def times(loads: list[Any], inputs: tuple[torch.Tensor, ...], rounds: int) -> str:
    """The smallest CPU time of each load, in ms."""
    best = [float("inf")] * len(loads)
    for _ in range(rounds):
        for i, method in enumerate(loads):
            for _ in range(3):
                begin = time.process_time()
                method(*inputs)
                best[i] = min(best[i], time.process_time() - begin)
    return "  ".join(f"{value} {seconds * 1e3:.2f} ms" for value, seconds in zip(VALUES, best))


def errors(
    loads: list[Any], others: list[Any], model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]
) -> tuple[list[float], bool]:
    """The error of each load against float64; true if `others`, with another number of threads, compute the same bits."""
    exact = copy.deepcopy(model).double()
    squares = [0.0] * len(loads)
    is_same = True
    torch.manual_seed(0)
    for _ in range(INPUTS):
        x = other_inputs(inputs)
        expected = exact(*(tensor.double() if tensor.is_floating_point() else tensor for tensor in x))
        for i, (method, other) in enumerate(zip(loads, others)):
            result = method(*x).clone()
            is_same &= torch.equal(result, method(*x)) and torch.equal(result, other(*x))
            difference = result.double() - expected
            squares[i] += float((difference**2).mean() / (expected**2).mean()) / INPUTS
    return [square**0.5 for square in squares], is_same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", type=int, choices=(1, 2), default=1)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--errors", action="store_true", help="measure errors, not times")
    args = parser.parse_args()
    if args.errors:
        print("| model | `off` | `accurate` | `on` | ratio |\n|---|---|---|---|---|")
    broken = []
    for name in args.models or (ALL if args.errors else ["resnet18", "resnet50", "unet"]):
        model, inputs = network(name)
        file = bytes(edgecore.compile(model, inputs, backends=["xnnpack"]).buffer)
        loads, others = (
            [
                edgecore.load(file, threads=threads, options={"xnnpack": {"winograd": value}})["forward"]
                for value in VALUES
            ]
            for threads in (args.threads, 3 - args.threads)
        )
        with torch.no_grad():
            if not args.errors:
                print(f"{name}, {args.threads} threads: {times(loads, inputs, args.rounds)}", flush=True)
                continue
            roots, is_same = errors(loads, others, model, inputs)
        ratios = [root / roots[0] for root in roots]
        shown = " | ".join(f"{root:.2e}" for root in roots)
        print(f"| {name} | {shown} | {ratios[1]:.2f}, {ratios[2]:.2f} |", flush=True)
        if not is_same:
            broken.append(f"results of {name} differ between runs or numbers of threads")
        if any(ratio > bound for ratio, bound in zip(ratios, BOUNDS)):
            broken.append(f"the errors of {name} are too large")
    if broken:
        raise SystemExit("; ".join(broken))


if __name__ == "__main__":
    main()
