#!/usr/bin/env python3
"""Compile a set of networks, and print a SHA-256 of the written files for each: NETWORK RECIPE RUNTIME HASH.

A refactoring must not change a byte of any file: run this tool before and after, and compare the output with `diff`.
The networks come from `tests/zoo.py` (including torchvision's), from the small programs below, which use passes that
the zoo does not use, and from `../shared/zoo/models.py` beside the repository, if this file exists. Weights and inputs
come from a fixed seed, and torch runs on one thread, so that the calibration of `int8` is the same in every run. The
hash covers the `.pte`, followed by its `.ptd` files. The names of source files in the `.pte` are written without their
folders, which differ between checkouts. If a compilation fails, the type of the error is printed instead of the hash.

    python tools/file_hashes.py > before.txt
    python tools/file_hashes.py mobilenet_v2 unet --recipes xnnpack int8 --runtimes edgecore
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import importlib.util
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHARED_ZOO = ROOT.parent / "shared" / "zoo" / "models.py"
sys.path.insert(0, str(ROOT / "tests"))

import torch
import zoo
from torch import nn

import edgecore

RUNTIMES = ("executorch-1.5", "edgecore")
RECIPES: dict[str, dict[str, Any]] = {
    "portable": {},
    "xnnpack": {"backends": ["xnnpack"]},
    **{name: {"backends": ["xnnpack"], "quantize": name} for name in ("int8", "int8-dynamic", "int4-weights", "fp16")},
}
QUICK = ("mobilenet_v2", "mobilenet_v3_small", "resnet18", "squeezenet1_0", "shufflenet_v2_x1_0", "unet", "speech_lstm")
"""Networks of the zoo that are compiled by default; `--all` adds the large ones."""

Program = tuple[Any, Any, dict[str, Any]]
"""A model, its example inputs, and further arguments of `edgecore.compile`."""


class Volumes(nn.Module):
    """3D convolution, batch norm, pooling and transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4)
        self.grow, self.pool = nn.ConvTranspose3d(4, 2, 2, 2), nn.MaxPool3d(2)

    def forward(self, volume: torch.Tensor) -> torch.Tensor:
        """Reduce and enlarge a volume."""
        return self.grow(self.pool(torch.relu(self.norm(self.conv(volume)))))


class Flow(nn.Module):
    """A branch that depends on data, and a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, value: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        """Apply the layer `steps` times to the result of the branch."""
        chosen = torch.cond(value.sum() > 0, lambda x: self.linear(x) * 2, lambda x: x.relu() - 1, (value,))
        _, result = torch.while_loop(
            lambda step, x: step < steps,
            lambda step, x: (step + 1, self.linear(x)),
            (torch.tensor(0), chosen.t().contiguous()),
        )
        return result


class Attention(nn.Module):
    """Embedding with a symbolic size, dropout, attention, layer norm, 1D convolution and argmax."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.query, self.key = nn.Embedding(100, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.norm, self.drop = nn.LayerNorm(32), nn.Dropout(0.1)
        self.conv = nn.Conv1d(32, 32, 3, padding=1)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute scores of the tokens, and the index of the largest score of each token."""
        value = self.drop(self.embedding(tokens))
        query, key = (layer(value).unflatten(-1, (4, 8)).transpose(1, 2) for layer in (self.query, self.key))
        mixed = nn.functional.scaled_dot_product_attention(query, key, key, is_causal=True)
        result = self.norm(mixed.transpose(1, 2).flatten(2) + value)
        result = self.conv(result.transpose(1, 2)).transpose(1, 2)
        return result, result.argmax(-1)


class Cache(nn.Module):
    """Base class: a mutable buffer that `prefill` writes and `decode` only reads."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(4, 8))
        self.linear = nn.Linear(8, 8)


class Prefill(Cache):
    """The method that writes the cache."""

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Add to the cache in place."""
        self.state.add_(self.linear(value))
        return self.state.sum(0)


class Decode(Cache):
    """The method that reads the cache."""

    def forward(self, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Add the cache to the value; return the input too."""
        return self.linear(value) + self.state, value


class Dilated(nn.Module):
    """A dilated convolution whose outer taps only read padding, an FFT, sort, fold, and outputs that alias."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=24, dilation=24), nn.BatchNorm2d(4)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return results of operators that edgecore decomposes itself."""
        value = self.norm(self.conv(image))
        spectrum = torch.fft.rfft(value).abs()
        padded = nn.functional.pad(value, (1, 2, 1, 1), mode="circular")
        ordered = value.sort(-1, descending=True).values
        folded = nn.functional.fold(image.flatten(2)[:, :, :9].repeat(1, 4, 1), 6, 2, stride=2)
        return value, value, spectrum, padded, ordered, folded


def _attention() -> Program:
    length = torch.export.Dim("length", min=2, max=64)
    return Attention().eval(), (torch.randint(0, 100, (2, 16)),), {"dynamic_shapes": ({1: length},)}


def _cache() -> Program:
    inputs = (torch.randn(4, 8),)
    models = {"prefill": Prefill().eval(), "decode": Decode().eval()}
    arguments = {"share_state": True, "constant_methods": {"limit": 7}, "external_data": {"*weight": "weights"}}
    return models, dict.fromkeys(models, inputs), arguments


def _static() -> Program:
    return zoo.UNet().eval(), (torch.randn(1, 3, 32, 32),), {"memory": "static", "external_data": True}


SMALL: dict[str, Callable[[], Program]] = {
    "volumes": lambda: (Volumes().eval(), (torch.randn(1, 2, 4, 6, 6),), {}),
    "flow": lambda: (Flow().eval(), (torch.randn(8, 8), torch.tensor(3)), {}),
    "attention": _attention,
    "cache": _cache,
    "static": _static,
    "dilated": lambda: (Dilated().eval(), (torch.randn(1, 3, 14, 14),), {}),
}


def shorten_source_paths() -> None:
    """Make edgecore write `zoo.py:12` instead of `/home/me/edgecore/tests/zoo.py:12` into files."""
    import edgecore.pipeline.compile

    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "edgecore"]
    original = edgecore.ir.graph.source_line
    for module in modules:
        if getattr(module, "source_line", None) is original:
            module.source_line = lambda node: Path(original(node)).name


def programs() -> dict[str, Callable[[], Program]]:
    """Return functions that make all programs, by name. Programs of the shared zoo are called `shared/NAME`."""
    makers: dict[str, Callable[[], Program]] = dict(SMALL)
    for name in zoo.ALL:
        makers[name] = lambda name=name: (*zoo.make(name), {})
    if SHARED_ZOO.is_file():
        spec = importlib.util.spec_from_file_location("shared_zoo", SHARED_ZOO)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name in module.ZOO:
            makers[f"shared/{name}"] = lambda name=name: (*module.make(name), {})
    return makers


def hash_of(program: Program, recipe: str, runtime: str) -> str:
    """Compile a program and hash the files that `save` writes: the `.pte`, then the `.ptd` files, sorted by name.

    Args:
        program: The program.
        recipe: A key of `RECIPES`.
        runtime: The target runtime.

    Returns:
        The hash, or the name of the exception if the compilation fails.
    """
    model, inputs, arguments = program
    arguments = dict(arguments)
    if recipe == "int8":
        arguments["calibration"] = (
            {name: [example] for name, example in inputs.items()} if isinstance(inputs, dict) else [inputs]
        )
    try:
        compiled = edgecore.compile(copy.deepcopy(model), inputs, runtime=runtime, **RECIPES[recipe], **arguments)
    except edgecore.errors.EdgecoreError as error:
        print(f"{recipe}: {error}", file=sys.stderr)
        return type(error).__name__
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        first, *others = compiled.save(Path(folder) / "model.pte")
        for path in (first, *sorted(others)):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def lines(names: list[str], recipes: list[str], runtimes: list[str]) -> Iterator[str]:
    """Compile the networks with all recipes for all runtimes, and yield each line as soon as it is known."""
    makers = programs()
    for name in names:
        try:
            torch.manual_seed(0)
            program = makers[name]()
        except ImportError as error:
            yield f"{name} needs {error.name}"
            continue
        for recipe in recipes:
            for runtime in runtimes:
                torch.manual_seed(0)
                yield f"{name} {recipe} {runtime} {hash_of(program, recipe, runtime)}"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", help=f"by default {', '.join((*SMALL, *QUICK))}")
    parser.add_argument("--all", action="store_true", help="all networks, including those of the shared zoo")
    parser.add_argument("--recipes", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--runtimes", nargs="+", choices=RUNTIMES, default=list(RUNTIMES))
    parser.add_argument("--list", action="store_true", help="print the names of the networks and stop")
    options = parser.parse_args()
    known = programs()
    if options.list:
        print("\n".join(known))
        return
    names = list(known) if options.all else options.networks or [*SMALL, *QUICK]
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no network {unknown[0]!r}: --list prints their names")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    shorten_source_paths()
    for line in lines(names, options.recipes, options.runtimes):
        print(line, flush=True)


if __name__ == "__main__":
    main()
