"""Chat templates: Jinja, in a sandbox, since a template comes with a checkpoint and is not trusted."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import jinja2.ext
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edgecore_llm.errors import TokenizerError

_MAX_TEXT = 1 << 20
_MAX_ITEMS = 100_000
"""Limits of the rendered text, and of all ranges and repeated sequences of a template."""


class ChatTemplate:
    """A chat template of a checkpoint.

    Args:
        source: The template.
        bos_token, eos_token: The texts of the tokens that begin and end a text.
        now: The time for templates that ask for it; None for the current one.

    Raises:
        TokenizerError: The template is not valid.
    """

    def __init__(
        self, source: str, *, bos_token: str = "", eos_token: str = "", now: datetime.datetime | None = None
    ) -> None:
        environment = _Environment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: (now or datetime.datetime.now()).strftime(form)  # noqa: PLW0108
        environment.globals["range"] = environment.limited_range
        self._environment, self._tokens = environment, {"bos_token": bos_token, "eos_token": eos_token}
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise TokenizerError(f"the chat template is not valid: {error}") from error

    def render(
        self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """Return the text of a chat.

        It has the special tokens in it, the first of all tokens too: encode it with `specials=True` and without `bos`.

        Args:
            messages: The messages, each with `role` and `content`.
            add_generation_prompt: End with the begin of the answer.
            variables: What else the template takes, such as `tools` or `enable_thinking`.

        Raises:
            TokenizerError: The template refuses the messages, or goes beyond the limits.
        """
        values = {**self._tokens, "messages": messages, "add_generation_prompt": add_generation_prompt, **variables}
        self._environment.used, length, pieces = 0, 0, []
        try:
            for piece in self._template.generate(values):
                pieces.append(piece)
                length += len(piece)
                if length > _MAX_TEXT:
                    raise SecurityError(f"its text is longer than {_MAX_TEXT} characters")
        except (
            jinja2.TemplateError,
            TypeError,
            ValueError,
            ArithmeticError,
            LookupError,
            AttributeError,
            RecursionError,
        ) as error:
            raise TokenizerError(f"the chat template refuses these messages: {error}") from error
        return "".join(pieces)


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox that bounds ranges and repeated sequences; powers are not allowed."""

    intercepted_binops = frozenset(["*", "**"])
    used = 0

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise SecurityError("powers are not allowed")
        for items, times in ((left, right), (right, left)):
            if isinstance(items, str | list | tuple) and isinstance(times, int):
                self._use(len(items) * max(0, times))
        return super().call_binop(context, operator, left, right)

    def limited_range(self, *arguments: int) -> range:
        found = range(*arguments)
        self._use(len(found))
        return found

    def _use(self, items: int) -> None:
        self.used += items
        if self.used > _MAX_ITEMS:
            raise SecurityError(f"its sequences have more than {_MAX_ITEMS} items")


class _Generation(jinja2.ext.Extension):
    """The tag `generation`, which marks the parts of the assistant for training: its content stays."""

    tags = {"generation"}  # noqa: RUF012  (as in Jinja's own extensions)

    def parse(self, parser: Any) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)
