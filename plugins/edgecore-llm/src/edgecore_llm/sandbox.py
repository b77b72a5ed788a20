"""Run chat templates in Jinja's sandbox, with limits on the sizes of texts and sequences, and on the number of steps.

Jinja's own sandbox only limits `range`, so a malicious template could fill the memory by repetition, padding or `~`
(concatenation), or loop forever. Jinja has no settings against that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_TEXT = 1 << 20
"""Maximum number of characters of a text, both the rendered text and intermediate ones."""
MAX_ITEMS = 100_000
"""Maximum number of items of all ranges, repeated sequences and padded texts of a template."""
_MAX_STEPS = 300_000
"""Maximum number of calls, loop iterations, and items that filters visit."""
_MAX_BITS = 1024
"""Maximum number of bits of an integer product."""
_MAX_INDENT = 16
"""Maximum number of characters of a JSON indent or separator."""
_LARGE_WIDTH = re.compile(r"\d{4}")
_PERCENT_FORM = re.compile(r"%(?:\(.*?\))?[-#0 +]*(\*|\d*)(?:\.(\*|\d*))?")
_PADDING = {"center", "ljust", "rjust", "zfill", "expandtabs", "indent", "batch", "slice", "wordwrap", "truncate"}
"""Filters and text methods whose result grows with a number argument."""
_FORBIDDEN = {"encode", "to_bytes", "translate"}
"""Methods without a limit here: `encode` and `to_bytes` return bytes, `translate` a text that a table lengthens."""
_OF_ANY = {"attr", "count", "d", "default", "first", "last", "length"}
"""Filters that do not iterate over their input."""
_OF_SEQUENCES = {
    *_OF_ANY, "batch", "dictsort", "groupby", "items", "list", "map", "max", "min", "random", "reject", "rejectattr",
    "reverse", "select", "selectattr", "slice", "sort", "sum", "unique",
}  # fmt: skip
"""Filters that do not convert their input to a text."""


class _Generator(CodeGenerator):
    """Generates Python code for templates; the operator `~` becomes a call of the sandbox's `concat`."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.concat((")
        for part in node.nodes:
            self.write("environment.text(")
            self.visit(part, frame)
            self.write("), ")
        self.write("))")


class Sandbox(ImmutableSandboxedEnvironment):
    """A Jinja sandbox that limits the sizes of texts and sequences and the number of steps, and forbids powers."""

    code_generator_class = _Generator
    intercepted_binops = frozenset(["*", "**", "+", "%"])
    used = steps = 0

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, finalize=_checked)
        self.globals["range"] = self._range
        del self.globals["lipsum"]
        self.filters["tojson"] = _to_json
        for name, function in self.filters.items():
            self.filters[name] = self._bounded_filter(name, function)

    def start(self) -> None:
        """Reset the counts."""
        self.used = self.steps = 0

    def step(self) -> bool:
        """Return True. Templates call this method to count a step, because `call` counts all calls."""
        return True

    def text(self, value: Any) -> str:
        """Convert a value to text."""
        return str(_checked(value))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Parse a template; insert a call of `step` into each loop iteration and loop condition, to count them."""
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            step = nodes.Call(nodes.EnvironmentAttribute("step"), [], [], None, None, lineno=loop.lineno)
            loop.body.insert(0, nodes.ExprStmt(step, lineno=loop.lineno))
            if loop.test is not None:
                loop.test = nodes.And(step, loop.test, lineno=loop.lineno)
        tree.set_environment(self)
        return tree

    # Jinja calls `concat` for macros and `{% set %}` blocks, and code of `_Generator` calls it for the operator `~`.
    def concat(self, parts: Iterable[str]) -> str:
        """Join texts."""
        texts = list(parts)
        _check_length(sum(map(len, texts)))
        return "".join(texts)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute a binary operator of `intercepted_binops` for a template, after checking the size of the result."""
        if operator == "**":
            raise SecurityError("powers are not allowed")
        if operator == "%" and isinstance(left, str):
            _check_percent_form(left)
            _check_arguments(left.count("%") if isinstance(right, Mapping) else 1, right)
        if operator == "+" and _is_sized(left) and _is_sized(right):
            _check_length(len(left) + len(right))
        if operator == "*":
            if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > _MAX_BITS:
                raise SecurityError(f"a product of integers has more than {_MAX_BITS} bits")
            for items, times in ((left, right), (right, left)):
                if _is_sized(items) and isinstance(times, int):
                    self._use(len(items) * max(0, times))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, called: Any, /, *arguments: Any, **named: Any) -> Any:
        """Call a function for a template, after counting the call; for a method of a text, check the sizes first."""
        self._count(1)
        owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
        if isinstance(owner, str | int) and name in _FORBIDDEN:
            raise SecurityError(f"the method {name} is not allowed")
        if isinstance(owner, str):
            self._check(name, (owner, *arguments), named)
        return super().call(context, called, *arguments, **named)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return `str.format` or `str.format_map` with size checks; Jinja calls this when a template reads either."""
        function = super().wrap_str_format(value)
        if function is None:
            return None
        form: str = value.__self__
        _check_brace_form(form)

        def bounded(*arguments: Any, **named: Any) -> str:
            _check_arguments(form.count("{"), [arguments, named])
            return function(*arguments, **named)

        return bounded

    def _bounded_filter(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a filter to check the sizes of its arguments first; Jinja's context stays the first argument."""

        def bounded(*arguments: Any, **named: Any) -> Any:
            first = 1 if hasattr(function, "jinja_pass_arg") else 0
            front, (value, *rest) = arguments[:first], arguments[first:]
            if name == "join" and isinstance(value, Iterator):
                value = list(value)
            self._count(1)
            if name not in _OF_ANY and not isinstance(value, str) and hasattr(value, "__len__"):
                self._count(len(value))
            if name not in _OF_SEQUENCES:
                _checked([value, *rest])
            self._check(name, (value, *rest), named)
            return function(*front, value, *rest, **named)

        if hasattr(function, "jinja_pass_arg"):
            bounded.jinja_pass_arg = function.jinja_pass_arg  # type: ignore[attr-defined]
        return bounded

    def _check(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Check the sizes of a filter's or text method's arguments; the first one is the filtered value or the text."""
        first, *rest = arguments
        values = [*rest, *named.values()]
        if name in _PADDING:
            lines = first.count("\n") + first.count("\t") + 1 if isinstance(first, str) else 1
            texts = [len(value) for value in values if isinstance(value, str)]
            self._use(lines * max([0, *texts, *(value for value in values if isinstance(value, int))]))
        elif name == "format" and isinstance(first, str):
            _check_percent_form(first)
            _check_arguments(first.count("%") if named else 1, values)
        elif name == "sum" and not isinstance(named.get("start", next(iter(rest[1:]), 0)), int | float):
            raise SecurityError("sums begin with numbers only")
        elif name == "join" and hasattr(first, "__len__"):
            # The filter `join` joins the items of its first argument, the method `str.join` the items of its second
            # one.
            items = next((value for value in values if not isinstance(value, str) and hasattr(value, "__len__")), first)
            between = max((len(value) for value in (first, *values) if isinstance(value, str)), default=0)
            _check_length(len(items) * between)
            _checked(items)
            self._use(len(items))
        elif name == "replace" and len(values) > 1 and all(isinstance(value, str) for value in (first, *values[:2])):
            places = first.count(values[0])
            _check_length(len(first) + places * len(values[1]))

    def _range(self, *arguments: int) -> range:
        numbers = range(*arguments)
        self._use(len(numbers))
        return numbers

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > _MAX_STEPS:
            raise SecurityError(f"it takes more than {_MAX_STEPS} steps")

    def _use(self, items: int) -> None:
        self.used += items
        if self.used > MAX_ITEMS:
            raise SecurityError(f"its sequences have more than {MAX_ITEMS} items")


def _is_sized(value: Any) -> bool:
    return isinstance(value, str | list | tuple)


def _check_length(length: int) -> None:
    if length > MAX_TEXT:
        raise SecurityError(f"its text is longer than {MAX_TEXT} characters")


def _checked(value: Any) -> Any:
    """Return a value after checking that the value as text has at most MAX_TEXT characters."""
    size, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            size += len(item)
        elif isinstance(item, Mapping):
            size += len(item)
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            size += len(item)
            waiting += item
        else:
            size += 1
        _check_length(size)
    return value


def _check_arguments(uses: int, arguments: Any) -> None:
    """Check the size of the text that a format string can make if it uses each argument at most `uses` times."""
    _checked(arguments)
    if uses > 1:
        _check_length(uses * len(str(arguments)))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Convert a value to JSON, with the arguments that the filter `tojson` has in `transformers`."""
    texts = [indent, *(separators or ())]
    if any((len(text) if isinstance(text, str) else text or 0) > _MAX_INDENT for text in texts):
        raise SecurityError(f"an indent or a separator of JSON is longer than {_MAX_INDENT} characters")
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _check_percent_form(form: str) -> None:
    for match in _PERCENT_FORM.finditer(form):
        if any(part is not None and ("*" in part or len(part) > 3) for part in match.groups()):
            raise SecurityError(f"the format {form[:40]!r} has a large width")


def _check_brace_form(form: str) -> None:
    """Reject format strings with large widths such as `{:>9999}`, or with widths that are arguments (`{:{n}}`)."""
    for part in re.findall(r"\{[^{}]*[:!]([^}]*)", form):
        if "{" in part or _LARGE_WIDTH.search(part):
            raise SecurityError(f"the format {form[:40]!r} has a large width")
