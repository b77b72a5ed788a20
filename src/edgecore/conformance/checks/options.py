"""Check the options for compiling (the compiler's pydantic model) and for loading (the native library's table)."""

from __future__ import annotations

import os
import sys
import tempfile
import types
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

import edgecore
from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.checks.networks import delegated
from edgecore.conformance.programs import eager, load, network, outputs
from edgecore.conformance.samples.network_models import NETWORKS
from edgecore.errors import CompileError, EdgecoreError

LOOSE = 0.05
"""Maximum error, relative to the largest result, of a network compiled with an option's non-default value. It is large,
because options may reduce the precision.
"""

UNKNOWN = "no_such_option_of_this_backend"


class _Wrong:
    """A value that each option must reject, because no option has this type."""

    def __repr__(self) -> str:
        return "a value of a wrong type"


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield the checks of unknown options, and one check for each option for compiling and for loading."""
    yield Check("options/unknown", unknown)
    for name, field in subject.compiler.Options.model_fields.items():
        yield Check(f"options/{name}", _Option(name, field), seconds=120)
    yield Check("options/unknown when loading", unknown_load, needs_run=True)
    for option in subject.declared.load_options:
        name = f"options/{option['name']} when loading"
        yield Check(
            name, _LoadOption(option), needs_run=True, in_process="edgecore-run takes text, which has no wrong type"
        )


def unknown(subject: BackendUnderTest) -> str:
    """Check that an unknown option for compiling raises an error that names the option."""
    return _expect_rejection(subject, UNKNOWN, True)


def unknown_load(subject: BackendUnderTest) -> str:
    """Check that an unknown option for loading raises an error that names the option."""
    return _expect_load_rejection(subject, UNKNOWN, 1)


class _Option:
    """Check that an option has a description and a default, rejects invalid values, and works with valid ones."""

    def __init__(self, name: str, field: FieldInfo) -> None:
        self.name = name
        self.field = field

    def __call__(self, subject: BackendUnderTest) -> str:
        if not (self.field.description or "").strip():
            raise Failed(f"the option {self.name} has no description")
        if self.field.is_required():
            raise Failed(f"the option {self.name} has no default")
        wrong = [_Wrong(), *_out_of_range(self.field)]
        for value in wrong:
            subject.trying(f"{self.name}={value!r}")
            _expect_rejection(subject, self.name, value)
        tried, without_effect, refused = [], [], []
        for value in _other_values(self.field, subject.options.get(self.name, self.field.default)):
            subject.trying(f"{self.name}={value!r}")
            if value in _declared(self.field, "compiles_elsewhere") and _is_refused(subject, self.name, value):
                refused.append(repr(value))
                continue
            if not self._has_effect(subject, value):
                without_effect.append(repr(value))
            tried.append(repr(value))
        if without_effect and len(without_effect) == len(tried):
            raise Skipped(
                f"works, but {', '.join(without_effect)} changes nothing on the networks of the suite: "
                "neither blobs nor delegation nor printed output"
            )
        elsewhere = f"; this machine cannot compile with {', '.join(refused)}" if refused else ""
        return f"{len(wrong)} wrong values rejected; works with {', '.join(tried) or 'its default'}{elsewhere}"

    def _has_effect(self, subject: BackendUnderTest, value: Any) -> bool:
        """Return True if compiling the suite's networks with `value` changes a program or prints something.

        Raises:
            Failed: A network does not compile, or its results are wrong.
        """
        effect = False
        options = {**subject.options, self.name: value}
        for name in NETWORKS:
            model, inputs, default = network(subject, name)
            with _captured() as printed:
                try:
                    backend = edgecore.Backend(subject.name, **options)
                    program = edgecore.compile(model, inputs, backends=[backend])
                except EdgecoreError as error:
                    raise Failed(f"{self.name}={value!r}: {name} does not compile: {error}") from error
            if printed or _visible(program) != _visible(default):
                effect = True
            if subject.cannot_run or value in _declared(self.field, "device_only"):
                continue
            got = outputs(load(subject, program).forward(*inputs))
            for actual, expected in zip(got, eager(model, inputs), strict=True):
                error_ = float((actual - expected).abs().max() / expected.abs().max().clamp(min=1e-6))
                if actual.shape != expected.shape or not error_ <= LOOSE:
                    raise Failed(f"{self.name}={value!r}: {name} has an error of {error_:.0%} of the largest value")
        return effect


class _LoadOption:
    def __init__(self, option: Any) -> None:
        self.option = option

    def __call__(self, subject: BackendUnderTest) -> str:
        name = self.option["name"]
        if not self.option["help"].strip():
            raise Failed(f"the option {name} for loading has no help")
        if not self.option["when"] or self.option["type"].startswith("unknown"):
            raise Failed(f"the option {name} for loading has type {self.option['type']}, when {self.option['when']}")
        if "load" not in self.option["when"]:
            raise Skipped("the option can only be set after loading")
        wrong: Any = b"\0" if self.option["type"] != "bytes" else 1.5
        return _expect_load_rejection(subject, name, wrong)


def _declared(field: FieldInfo, key: str) -> list[Any]:
    """Return the values of an option that a backend declares as `Field(..., json_schema_extra={key: [...]})`.

    The keys are `device_only` (files compiled with these values run only on a device, not on this machine) and
    `compiles_elsewhere` (some machines cannot compile with these values).
    """
    extra = field.json_schema_extra
    return list(extra.get(key, [])) if isinstance(extra, dict) else []  # type: ignore[arg-type]


def _compile_with(subject: BackendUnderTest, name: str, value: Any) -> None:
    model, inputs = NETWORKS["elementwise"]()
    edgecore.compile(model, inputs, backends=[edgecore.Backend(subject.name, **{**subject.options, name: value})])


def _is_refused(subject: BackendUnderTest, name: str, value: Any) -> bool:
    """Return True if compiling with this value of the option raises an error here; the error must name the option."""
    try:
        _compile_with(subject, name, value)
    except CompileError as error:
        _text_naming_option(error, name, value)
        return True
    return False


def _expect_rejection(subject: BackendUnderTest, name: str, value: Any) -> str:
    try:
        _compile_with(subject, name, value)
    except CompileError as error:
        return _text_naming_option(error, name, value)
    except Exception as error:
        raise Failed(f"{name}={value!r} raises {type(error).__name__} instead of CompileError: {error}") from error
    hint = '; set model_config = ConfigDict(extra="forbid")' if name == UNKNOWN else ""
    raise Failed(f"{name}={value!r} is accepted{hint}")


def _expect_load_rejection(subject: BackendUnderTest, name: str, value: Any) -> str:
    _, _, inputs, program = delegated(subject)
    options = {subject.backend_id: {**subject.load_options, name: value}}
    try:
        loaded = load(subject, program, options=options)
        if subject.runner is not None:
            loaded.forward(*inputs)  # a runner (an external command) loads the file only when called
    except (EdgecoreError, TypeError) as error:
        return _text_naming_option(error, name, value)
    raise Failed(f"{name}={value!r} is accepted when loading")


def _text_naming_option(error: Exception, name: str, value: Any) -> str:
    text = str(error)
    if name not in text:
        raise Failed(f"the error for {name}={value!r} does not name the option: {text}")
    return text


def _out_of_range(field: FieldInfo) -> list[Any]:
    """Return invalid values of an option: numbers just beyond its bounds, or a string that is not a choice."""
    values: list[Any] = []
    for bound in field.metadata:
        match bound:
            case Ge(ge=limit):
                values.append(limit - 1)  # type: ignore[operator]
            case Gt(gt=limit) | Lt(lt=limit):
                values.append(limit)
            case Le(le=limit):
                values.append(limit + 1)  # type: ignore[operator]
    if _choices(field.annotation):
        values.append("no such choice")
    return values


def _other_values(field: FieldInfo, present: Any) -> list[Any]:
    """Return valid values of an option, except `present`: booleans, the option's choices, or bounds of its range."""
    plain = _plain(field.annotation)
    values = [False, True] if plain is bool else _choices(plain)
    if get_origin(plain) in (tuple, list):
        values = [(choice,) for choice in _choices(get_args(plain)[0])]
    for bound in field.metadata:
        if isinstance(bound, Ge):
            values = [*values, bound.ge]
        elif isinstance(bound, Le):
            values = [*values, bound.le]
    return [value for value in values if value != present]


def _choices(annotation: Any) -> list[Any]:
    plain = _plain(annotation)
    if get_origin(plain) is Literal:
        return list(get_args(plain))
    if isinstance(plain, type) and issubclass(plain, Enum):
        return list(plain)
    return []


def _plain(annotation: Any) -> Any:
    """Return `X` for `X | None`, and any other annotation unchanged."""
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        return parts[0] if len(parts) == 1 else annotation
    return annotation


def _visible(program: Any) -> Any:
    plans = program.pte.program.execution_plan
    return (
        [bytes(blob) for blob in program.pte.delegate_blobs],
        [(row.operator, row.where) for row in program.report().rows],
        [repr(delegate.compile_specs) for plan in plans for delegate in plan.delegates],
        sorted(key for key in program.pte.named_data if not key.startswith("edgecore.")),
    )


@contextmanager
def _captured() -> Iterator[bytearray]:
    """Capture what Python and libraries print in the `with` block. The yielded bytes are complete after the block."""
    printed = bytearray()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    saved = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield printed
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for descriptor, copy in enumerate(saved, 1):
                os.dup2(copy, descriptor)
                os.close(copy)
            file.seek(0)
            printed += file.read()
