"""Implement `edgecore llm chat`, an interactive chat with a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from edgecore.sdk.commands import takes
from edgecore_llm.cli.options import AnswerArguments, Temperature, TopK, TopP, open_model
from edgecore_llm.errors import SessionError
from edgecore_llm.runner.answer import answer_text
from edgecore_llm.runner.session import Session
from edgecore_llm.template import ChatTemplate, open_template
from edgecore_llm.tokenizer.stream import TextStream
from edgecore_llm.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class ChatArguments(AnswerArguments):
    """The arguments of `edgecore llm chat`."""

    system: Annotated[str, typer.Option(help="The system message, which tells the model how to answer.")] = ""
    max_new_tokens: Annotated[int, typer.Option(min=1, help="The most tokens of an answer.")] = 512
    temperature: Temperature = 0.7
    top_k: TopK = 40
    top_p: TopP = 0.95


@takes(ChatArguments)
def chat_command(arguments: ChatArguments) -> None:
    """Talk with a model. An empty line or Ctrl-D ends the chat, Ctrl-C an answer."""
    sampling, shift = arguments.sampling, arguments.shift
    model, tokenizer = open_model(arguments.file, arguments.tokenizer, arguments.threads)
    template = open_template(tokenizer, model.metadata.chat_template)
    session = model.new_session()
    first = [{"role": "system", "content": arguments.system}] if arguments.system else []
    turns: list[dict[str, str]] = []
    keep = min(head_of_chat(template, tokenizer, first), session.metadata.context // 2) if shift else None
    while text := _ask():
        turns.append({"role": "user", "content": text})
        whole = template.encode(tokenizer, [*first, *turns])
        while shift and len(whole) > session.metadata.context // 2 and len(turns) > 1:
            del turns[:2]  # a question and its answer
            whole = template.encode(tokenizer, [*first, *turns])
        prompt = next_prompt(session, whole)
        most = arguments.max_new_tokens if shift else min(arguments.max_new_tokens, session.room - len(prompt) + 1)
        if most < 1 or len(prompt) > session.room:
            raise SessionError(
                f"the chat has reached the context of {session.metadata.context} tokens; begin a new one, use --shift, "
                "or export with a longer context"
            )
        answer = ""
        tokens = session.generate(prompt, most, sampling, vocabulary=tokenizer.vocabulary, keep=keep)
        try:
            for piece in answer_text(tokens, TextStream(tokenizer)):
                typer.echo(piece, nl=False)
                answer += piece
        except KeyboardInterrupt:
            pass
        typer.echo("\n")
        turns.append({"role": "assistant", "content": answer})
    typer.echo(session.statistics.line(), err=True)


def next_prompt(session: Session, tokens: list[int]) -> list[int]:
    """Rewind a session to the first tokens that it shares with a chat, and return the other tokens of the chat.

    The tokens must be compared, because a template may render an earlier answer differently from its generated tokens.
    """
    common = 0
    for known, token in zip(session.tokens, tokens[:-1]):
        if known != token:
            break
        common += 1
    session.rewind(common)
    return tokens[common:]


def head_of_chat(template: ChatTemplate, tokenizer: Tokenizer, first: list[dict[str, str]]) -> int:
    """Return how many tokens of a chat precede the first question: the system message and text of the template."""
    chats = (template.encode(tokenizer, [*first, {"role": "user", "content": text}]) for text in ("a", "b"))
    return next((index for index, (token, other) in enumerate(zip(*chats, strict=False)) if token != other), 0)


def _ask() -> str:
    try:
        return input("> ").strip()
    except (EOFError, KeyboardInterrupt):
        typer.echo()
        return ""
