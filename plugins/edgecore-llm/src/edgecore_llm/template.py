"""Render chat templates in Jinja. Templates come with checkpoints and are not trusted, so they run in a sandbox."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import jinja2.ext
from jinja2.exceptions import SecurityError

from edgecore_llm.errors import TokenizerError
from edgecore_llm.sandbox import MAX_TEXT, Sandbox
from edgecore_llm.tokenizer.tokenizer import Tokenizer

_MARKS = range(0xF0000, 0xFFFFE)
"""Private-use characters. Two that occur in no message delimit the message text within the rendered chat."""


class ChatTemplate:
    """A chat template of a checkpoint, in Jinja.

    Args:
        source: The text of the template.
        bos_token, eos_token: The spellings of the tokens that begin and end a text.
        now: The time for templates that ask for the time; None for the current time.

    Raises:
        TokenizerError: The template is not valid.
    """

    def __init__(
        self, source: str, *, bos_token: str = "", eos_token: str = "", now: datetime.datetime | None = None
    ) -> None:
        environment = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation])
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: (now or datetime.datetime.now()).strftime(form)  # noqa: PLW0108
        self._environment, self._tokens = environment, {"bos_token": bos_token, "eos_token": eos_token}
        try:
            self._template = environment.from_string(source)
        except (jinja2.TemplateError, RecursionError) as error:
            raise TokenizerError(f"the chat template is not valid: {error}") from error

    def render(
        self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """Return the text of a chat.

        The text has the spellings of all special tokens, also of `bos` at its start, so `encode` must not add `bos`.

        Args:
            messages: The messages, each with `role` and `content`.
            add_generation_prompt: End the text with the beginning of an answer, so that the model answers.
            variables: Other variables of the template, such as `tools` or `enable_thinking`.

        Raises:
            TokenizerError: The template refuses the messages, or exceeds the sandbox's limits.
        """
        values = {**self._tokens, "messages": messages, "add_generation_prompt": add_generation_prompt, **variables}
        self._environment.start()
        length, pieces = 0, []
        try:
            for piece in self._template.generate(values):
                pieces.append(piece)
                length += len(piece)
                if length > MAX_TEXT:
                    raise SecurityError(f"its text is longer than {MAX_TEXT} characters")
        except (
            jinja2.TemplateError,
            TypeError,
            ValueError,
            ArithmeticError,
            LookupError,
            AttributeError,
            RecursionError,
            MemoryError,
        ) as error:
            raise TokenizerError(f"the chat template refuses these messages: {error}") from error
        return "".join(pieces)

    def encode(self, tokenizer: Tokenizer, messages: Sequence[Mapping[str, Any]], **variables: Any) -> list[int]:
        """Return the tokens of a chat; where a message spells a special token, the spelling is encoded as plain text.

        Args:
            tokenizer: The tokenizer.
            messages: The messages, each with `role` and `content`.
            variables: As for `render`.

        Raises:
            TokenizerError: As for `render`; or the template cuts a message in the middle of a special token's spelling.
        """
        pattern = re.compile(f"(?=({tokenizer.special_texts.pattern}))")
        try:
            whole = json.dumps(messages, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise TokenizerError(
                f"a message holds something else than texts, numbers, lists and objects: {error}"
            ) from error
        opening, closing, *_ = (mark for mark in map(chr, _MARKS) if mark not in whole)
        marked = [_marked(message, pattern, opening, closing) for message in messages]
        parts = re.split(f"{opening}([^{opening}{closing}]*){closing}", self.render(marked, **variables))
        if any(mark in part for part in parts for mark in (opening, closing)):
            raise TokenizerError("the chat template cuts a message within the spelling of a special token")
        tokens: list[int] = []
        for index, part in enumerate(parts):
            is_text = index % 2 == 1
            # The template's text after a message, up to the next special token, continues the message: encode it
            # without a leading space.
            first = None if is_text else tokenizer.special_texts.search(part)
            cut = 0 if not is_text and not tokens else len(part) if first is None else first.start()
            if head := part[:cut]:
                has_space = not tokens or (tokenizer.spaces_after_specials and tokenizer.is_special(tokens[-1]))
                tokens += tokenizer.encode(head, is_continued=not has_space)
            if rest := part[cut:]:
                tokens += tokenizer.encode(rest, specials=True)
        return tokens


def open_template(tokenizer: Tokenizer, of_model: str | None = None) -> ChatTemplate:
    """Return the tokenizer's chat template; if it has none, the template in the model's `.pte`.

    Raises:
        TokenizerError: Neither the tokenizer nor the `.pte` has a chat template.
    """
    source = tokenizer.chat_template or of_model
    if source is None:
        raise TokenizerError(
            "neither the tokenizer nor the file has a chat template, so the model is not made for chats; "
            "use: edgecore llm run"
        )

    def text_of(token: int | None) -> str:
        return "" if token is None else tokenizer.token_bytes(token).decode("utf-8", "replace")

    return ChatTemplate(
        source,
        bos_token=text_of(tokenizer.bos_id),
        eos_token=text_of(next(iter(tokenizer.eos_ids), None)),
    )


def _marked(value: Any, pattern: re.Pattern[str], opening: str, closing: str) -> Any:
    """Put `opening` and `closing` around each special token's spelling in a message, or around overlapping ones."""
    if isinstance(value, Mapping):
        items = value.items()
        return {key: item if key == "role" else _marked(item, pattern, opening, closing) for key, item in items}
    if isinstance(value, list | tuple):
        return [_marked(item, pattern, opening, closing) for item in value]
    if not isinstance(value, str):
        return value
    pieces: list[str] = []
    end = 0
    for match in pattern.finditer(value):
        start = match.start()
        if start >= end:
            pieces += [closing if pieces else "", value[end:start], opening]
            end = start
        stop = max(end, match.end(1))
        pieces.append(value[end:stop])
        end = stop
    return "".join([*pieces, closing if pieces else "", value[end:]])


class _Generation(jinja2.ext.Extension):
    """Jinja's tag `generation`, by which templates mark answers for training: its content is rendered unchanged."""

    tags = {"generation"}  # noqa: RUF012  (as in Jinja's own extensions)

    def parse(self, parser: Any) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)
