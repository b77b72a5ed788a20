"""The sandbox of chat templates: Jinja's, with bounds for the sizes of texts and sequences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_TEXT = 1 << 20
"""Characters of a text, the rendered one and each between."""
MAX_ITEMS = 100_000
"""Items of all ranges, repeated sequences and padded texts of a template."""
_LARGE_WIDTH = re.compile(r"\d{4}")
_PERCENT_FORM = re.compile(r"%(?:\(.*?\))?[-#0 +]*(\*|\d*)(?:\.(\*|\d*))?")
_PADDING = {"center", "ljust", "rjust", "zfill", "expandtabs", "indent", "batch", "slice", "wordwrap", "truncate"}
"""Filters and methods of texts whose results grow with a number."""


class _Generator(CodeGenerator):
    """Code in which `~` joins by a function of the sandbox."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.concat((")
        for part in node.nodes:
            self.write("str(")
            self.visit(part, frame)
            self.write("), ")
        self.write("))")


class Sandbox(ImmutableSandboxedEnvironment):
    """A sandbox in which no text or sequence grows beyond bounds; powers are not allowed."""

    code_generator_class = _Generator
    intercepted_binops = frozenset(["*", "**", "+", "%"])
    used = 0

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.globals["range"] = self._range
        del self.globals["lipsum"]
        for name in ("format", "join", "replace", *(_PADDING & self.filters.keys())):
            self.filters[name] = self._bounded_filter(name, self.filters[name])

    def start(self) -> None:
        """Begin to count anew."""
        self.used = 0

    # Jinja calls it for macros, for `{% set %}` with a body, and here for `~`.
    def concat(self, parts: Iterable[str]) -> str:
        """Join texts."""
        found = list(parts)
        _check_length(sum(map(len, found)))
        return "".join(found)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute an operator of `intercepted_binops`."""
        if operator == "**":
            raise SecurityError("powers are not allowed")
        if operator == "%" and isinstance(left, str):
            _check_percent_form(left)
        if operator == "+" and _is_sized(left) and _is_sized(right):
            _check_length(len(left) + len(right))
        if operator == "*":
            for items, times in ((left, right), (right, left)):
                if _is_sized(items) and isinstance(times, int):
                    self._use(len(items) * max(0, times))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, called: Any, *arguments: Any, **named: Any) -> Any:
        """Call a function, for which the sizes are checked first if it is a method of a text."""
        owner = getattr(called, "__self__", None)
        if isinstance(owner, str):
            self._check(getattr(called, "__name__", ""), (owner, *arguments), named)
        return super().call(context, called, *arguments, **named)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return the function for `str.format` and `str.format_map`; Jinja asks for it when a template takes the method."""
        found = super().wrap_str_format(value)
        if found is not None:
            _check_brace_form(value.__self__)
        return found

    def _bounded_filter(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a filter that checks sizes first. Those that take the context or the environment get it first."""

        def bounded(*arguments: Any, **named: Any) -> Any:
            first = 1 if hasattr(function, "jinja_pass_arg") else 0
            self._check(name, arguments[first:], named)
            return function(*arguments, **named)

        if hasattr(function, "jinja_pass_arg"):
            bounded.jinja_pass_arg = function.jinja_pass_arg  # type: ignore[attr-defined]
        return bounded

    def _check(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Check the sizes of a call of a filter, or of a method of a text, whose first argument is what it works on."""
        first, *rest = arguments
        values = [*rest, *named.values()]
        if name in _PADDING:
            lines = first.count("\n") + first.count("\t") + 1 if isinstance(first, str) else 1
            texts = [len(value) for value in values if isinstance(value, str)]
            self._use(lines * max([0, *texts, *(value for value in values if isinstance(value, int))]))
        elif name == "format" and isinstance(first, str):
            _check_percent_form(first)
        elif name == "join" and hasattr(first, "__len__"):
            # The filter joins its first argument, the method of a text its second one.
            items = next((value for value in values if not isinstance(value, str) and hasattr(value, "__len__")), first)
            between = max((len(value) for value in (first, *values) if isinstance(value, str)), default=0)
            self._use(len(items) if len(items) * between <= MAX_TEXT else MAX_ITEMS + 1)
        elif name == "replace" and len(values) > 1 and all(isinstance(value, str) for value in (first, *values[:2])):
            places = first.count(values[0])
            _check_length(len(first) + places * len(values[1]))

    def _range(self, *arguments: int) -> range:
        found = range(*arguments)
        self._use(len(found))
        return found

    def _use(self, items: int) -> None:
        self.used += items
        if self.used > MAX_ITEMS:
            raise SecurityError(f"its sequences have more than {MAX_ITEMS} items")


def _is_sized(value: Any) -> bool:
    return isinstance(value, str | list | tuple)


def _check_length(length: int) -> None:
    if length > MAX_TEXT:
        raise SecurityError(f"its text is longer than {MAX_TEXT} characters")


def _check_percent_form(form: str) -> None:
    for match in _PERCENT_FORM.finditer(form):
        if any(part is not None and ("*" in part or len(part) > 3) for part in match.groups()):
            raise SecurityError(f"the format {form[:40]!r} has a large width")


def _check_brace_form(form: str) -> None:
    """Check widths such as `{:>9999}`, and widths that are arguments themselves."""
    for part in re.findall(r"\{[^{}]*[:!]([^}]*)", form):
        if "{" in part or _LARGE_WIDTH.search(part):
            raise SecurityError(f"the format {form[:40]!r} has a large width")
