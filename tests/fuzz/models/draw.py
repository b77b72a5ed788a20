"""Draw a small model as source code, one statement after the other; a statement that eager refuses is left out.

Source code rather than a graph of operators, because what is tested is what `torch.export` makes of a user's Python:
writes through views, buffers that calls change, branches. The model can be printed, pasted and run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

CALLS = 3
"""Calls of a model, one after the other: what a call writes into a buffer shows in the next."""
MAX_MAGNITUDE = 30.0
"""A statement whose result exceeds this is left out, so that quantized values keep a useful step."""
STATEMENTS = (3, 9)

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Model:
    """The source code of a module, and how to make its inputs.

    Attributes:
        seed: The seed of weights, buffers and inputs.
        shape: The shape of the only input, `x`.
        channels_last: True if the input is in channels_last (only images).
        members: Statements of `__init__`: layers and buffers.
        statements: Statements of `forward`.
        results: Names of the values that `forward` returns.
    """

    seed: int
    shape: tuple[int, ...]
    channels_last: bool = False
    members: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    results: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.source(f"return ({', '.join(self.results)},)")

    def source(self, last: str) -> str:
        """Return the code of the class with `last` as the last statement of `forward`."""
        members = "".join(f"        {line}\n" for line in self.members)
        statements = "".join(f"        {line}\n" for line in self.statements)
        return (
            "class Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            f"{members}    def forward(self, x):\n{statements}        {last}\n"
        )

    def make(self, last: str | None = None) -> torch.nn.Module:
        """Make the module in eval mode, with the weights of the seed."""
        names: dict[str, Any] = {"torch": torch}
        exec(str(self) if last is None else self.source(last), names)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            module: torch.nn.Module = names["Model"]().eval()
        return module

    def inputs(self) -> list[torch.Tensor]:
        """Return the input of each call: magnitudes of 0.1 to 1, so that the sign of an input survives quantization."""
        generator = torch.Generator().manual_seed(self.seed)
        inputs = []
        for _ in range(CALLS):
            size = torch.rand(self.shape, generator=generator) * 0.9 + 0.1
            sign = torch.where(torch.rand(self.shape, generator=generator) < 0.5, -1.0, 1.0)
            x = size * sign
            inputs.append(x.to(memory_format=torch.channels_last) if self.channels_last else x)
        return inputs

    def smaller(self) -> Iterator[Model]:
        """Yield the models with one statement, or one result, less."""
        for index in reversed(range(len(self.statements))):
            yield replace(self, statements=self.statements[:index] + self.statements[index + 1 :])
        if len(self.results) > 1:
            for index in range(len(self.results)):
                yield replace(self, results=self.results[:index] + self.results[index + 1 :])


def draw(seed: int) -> Model:
    """Draw the model of a seed."""
    return _Drawer(random.Random(seed), seed).model()


class _Drawer:
    def __init__(self, choices: random.Random, seed: int) -> None:
        self.random = choices
        is_image = choices.random() < 0.5
        shape = choices.choice([(1, 4, 6, 6), (2, 4, 5, 6), (1, 1, 6, 6)] if is_image else [(2, 8), (3, 8), (2, 3, 8)])
        self.drawn = Model(seed, shape, channels_last=is_image and choices.random() < 0.3)
        self.shapes: Shapes = {"x": shape}

    def model(self) -> Model:
        """Return the whole model; it has at least one layer, and returns at most three values."""
        self._try(self._layer)
        kinds: Sequence[Callable[[], tuple[str, str]]] = (
            self._layer, self._activation, self._binary, self._binary, self._move, self._move, self._copy,
            self._write, self._write, self._write, self._write_view, self._state, self._state, self._counter,
            self._condition, self._layout,
        )  # fmt: skip
        for _ in range(self.random.randint(*STATEMENTS)):
            self._try(self.random.choice(kinds))
        for member in self.drawn.members:  # what calls have written shows in a result
            name = member.split(" ")[0]
            if "Buffer" in member and self.random.random() < 0.5:
                self._try(lambda name=name: ("", f"{self._new()} = {name} * 1.0"))  # type: ignore[misc]
        values = [name for name in self.shapes if name != "x"]
        if not values:
            self._append("", "v0 = x * 0.5")
            values = ["v0"]
        count = self.random.choice((1, 1, 2, 3))
        results = dict.fromkeys([values[-1], *self.random.sample(values, min(count, len(values)))])
        return replace(self.drawn, results=tuple(results))

    def _try(self, make: Callable[[], tuple[str, str]]) -> None:
        for _ in range(4):
            try:
                member, statement = make()
            except IndexError:  # no value fits
                continue
            if self._append(member, statement):
                return

    def _append(self, member: str, statement: str) -> bool:
        """Add a statement, and the member that it needs, if eager takes it and its values stay finite and small."""
        members = (*self.drawn.members, *([member] if member and member not in self.drawn.members else []))
        longer = replace(self.drawn, members=members, statements=(*self.drawn.statements, statement))
        module = longer.make("return {name: value for name, value in locals().items() if name != 'self'}")
        shapes: Shapes = {}
        with torch.no_grad():
            for x in longer.inputs():
                try:
                    values = module(x)
                except (RuntimeError, IndexError):
                    return False
                for name, value in values.items():
                    if not value.numel() or not bool((value.abs() < MAX_MAGNITUDE).all()):
                        return False
                    shapes[name] = tuple(value.shape)
        self.drawn, self.shapes = longer, shapes
        return True

    # What statements are made of.

    def _value(self, fits: Callable[[tuple[int, ...]], bool] = lambda shape: True, *, written: bool = False) -> str:
        """Return the name of a value whose shape fits, later ones more often; not the input if it is `written`."""
        names = [name for name, shape in self.shapes.items() if fits(shape) and not (written and name == "x")]
        return self.random.choice(names[-3:])

    def _new(self) -> str:
        return f"v{len(self.drawn.statements)}"

    def _number(self) -> float:
        return self.random.choice((2, 0.5, -1, 1, 1.5, 0.25))

    def _same(self, name: str) -> str:
        return self._value(lambda shape: shape == self.shapes[name])

    def _slice(self, name: str) -> str:
        """Return an index that selects a part of a dim, such as `[:, 0::2]`."""
        shape = self.shapes[name]
        dim = self.random.choice([dim for dim, size in enumerate(shape) if size > 1])
        size = shape[dim]
        part = self.random.choice(("0::2", "1::2", f":{size // 2}", f"{size - size // 2}:", "0", "-1", f"1:{size}"))
        return f"[{':, ' * dim}{part}]"

    # Statements, each with the member of the module that it needs, or "".

    def _layer(self) -> tuple[str, str]:
        name = self._value(lambda shape: len(shape) in (2, 3, 4) and shape[-1] in (4, 5, 6, 8))
        shape, label = self.shapes[name], f"l{len(self.drawn.members)}"
        bias = self.random.random() < 0.7
        if len(shape) == 4 and self.random.random() < 0.8:
            kernel, out = self.random.choice((1, 3)), self.random.choice((4, 8, shape[1]))
            groups = shape[1] if out == shape[1] and self.random.random() < 0.4 else 1
            layer = f"Conv2d({shape[1]}, {out}, {kernel}, padding={kernel // 2}, groups={groups}, bias={bias})"
        else:
            layer = f"Linear({shape[-1]}, {self.random.choice((8, 8, 4))}, bias={bias})"
        return f"self.{label} = torch.nn.{layer}", f"{self._new()} = self.{label}({name})"

    def _activation(self) -> tuple[str, str]:
        function = self.random.choice(
            ("torch.relu", "torch.sigmoid", "torch.tanh", "torch.nn.functional.hardswish", "torch.nn.functional.relu6",
             "torch.nn.functional.leaky_relu", "torch.abs")
        )  # fmt: skip
        return "", f"{self._new()} = {function}({self._value()})"

    def _binary(self) -> tuple[str, str]:
        left = self._value()
        right = self._same(left) if self.random.random() < 0.7 else str(self._number())
        return "", f"{self._new()} = {left} {self.random.choice('++-*')} {right}"

    def _move(self) -> tuple[str, str]:
        name = self._value(lambda shape: len(shape) > 1)
        shape = self.shapes[name]
        order = self.random.sample(range(len(shape)), len(shape))
        dim = self.random.randrange(len(shape))
        moved = self.random.choice(
            (f"{name}.transpose({order[0]}, {order[1]})", f"{name}.permute({order})", f"{name}.reshape(-1)",
             f"{name}.flatten(1)", f"{name}{self._slice(name)}", f"{name}{self._slice(name)}", f"{name}.unsqueeze({dim})",
             f"{name}.flip({dim})", f"torch.cat([{name}, {self._same(name)}], {dim})", f"{name}.chunk(2, {dim})[-1]",
             f"{name}.expand(2, *{shape})[-1]", f"{name}.view({shape[0]}, -1)", f"{name}.detach()", f"{name}.roll(1, {dim})")
        )  # fmt: skip
        return "", f"{self._new()} = {moved}"

    def _copy(self) -> tuple[str, str]:
        return "", f"{self._new()} = {self._value()}.clone()"

    def _write(self) -> tuple[str, str]:
        """Write a whole value."""
        name = self._value(written=True)
        written = self.random.choice(
            (f"mul_({self._number()})", f"add_({self._same(name)})", "clamp_(-0.5, 0.5)", "relu_()", "sigmoid_()",
             f"copy_({self._same(name)})", f"sub_({self._number()})", f"masked_fill_({self._same(name)} > 9, 0.5)")
        )  # fmt: skip
        return "", f"{name}.{written}"

    def _write_view(self) -> tuple[str, str]:
        """Write a part of a value through a view."""
        name = self._value(lambda shape: max(shape, default=0) > 1, written=True)
        part = f"{name}{self._slice(name)}"
        written = self.random.choice(
            (f"{part} = {part} * {self._number()}", f"{part} = torch.sigmoid({part})", f"{part}.mul_({self._number()})",
             f"{part}.clamp_(0, 0.5)", f"{part} = {self._number()}", f"{part}.add_({part})", f"{part}.copy_({part}.flip(0))",
             f"{name}.view(-1).mul_({self._number()})", f"{name}.transpose(0, -1).add_({self._number()})",
             f"{name}[0] = {name}[-1]")
        )  # fmt: skip
        return "", written

    def _state(self) -> tuple[str, str]:
        """Read or write a buffer with the shape of a value."""
        name = self._value(lambda shape: len(shape) > 1)
        shape = self.shapes[name]
        label = f"self.s{'_'.join(map(str, shape))}"
        member = f"{label} = torch.nn.Buffer({self.random.choice(('torch.zeros', 'torch.ones'))}({shape}))"
        member = next((old for old in self.drawn.members if old.startswith(f"{label} =")), member)
        new, part = self._new(), self._slice(name)
        statement = self.random.choice(
            (f"{new} = {name} + {label}", f"{new} = {label} * {name}", f"{new} = {label}.clone()", f"{label}.add_(1)",
             f"{label}.copy_({name})", f"{label}.mul_(0.5).add_({name})", f"{label}{part} = {name}{part}",
             f"{label}.lerp_({name}, 0.25)", f"{label}.copy_({label}.roll(1, 0))", f"{label}.zero_()",
             f"{new} = {label}.add_({name}).clone()", f"{label}.view(-1)[:2].fill_(0.5)")
        )  # fmt: skip
        return member, statement

    def _counter(self) -> tuple[str, str]:
        name = self._value()
        count = "self.count = torch.nn.Buffer(torch.zeros((), dtype=torch.int64))"
        ready = "self.ready = torch.nn.Buffer(torch.tensor(False))"
        return self.random.choice(
            ((count, "self.count.add_(1)"), (count, "self.count += 1"), (count, f"{self._new()} = {name} * self.count"),
             (count, f"{self._new()} = torch.where(self.count > 1, {name}, {self._same(name)})"),
             (ready, "self.ready.fill_(True)"), (ready, "self.ready.logical_not_()"),
             (ready, f"{self._new()} = torch.where(self.ready, {name}, {self._same(name)} * 2)"),
             (ready, f"{self._new()} = {self._cond('self.ready', name)}"))
        )  # fmt: skip

    def _condition(self) -> tuple[str, str]:
        name = self._value()
        first = f"x[{', '.join('0' * len(self.drawn.shape))}] > 0"
        masked = f"torch.where(x > 0, {name}, {self._same(name)} * 0.5)"
        return "", f"{self._new()} = {self.random.choice((self._cond(first, name), masked))}"

    def _cond(self, predicate: str, name: str) -> str:
        yes = self.random.choice(("a * 2", "torch.relu(a)", "a.flip(0)"))
        return f"torch.cond({predicate}, lambda a: {yes}, lambda a: a - 1, ({name}.clone(),))"

    def _layout(self) -> tuple[str, str]:
        name = self._value(lambda shape: len(shape) == 4)
        layout = self.random.choice(("channels_last", "contiguous_format"))
        how = self.random.choice(("contiguous", "to", "clone"))
        return "", f"{self._new()} = {name}.{how}(memory_format=torch.{layout})"
