"""Load an exported language model, and extend token sequences with it, in sessions."""

from __future__ import annotations

import json
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import edgecore
from edgecore.errors import EdgecoreError
from edgecore_llm.errors import SessionError
from edgecore_llm.runner.portable_files import PortableForward, is_portable, portable_facts
from edgecore_llm.sampler import Logits, Sampling, sample

METADATA_METHOD = "get_llm_metadata"
"""The constant method of a file that returns its metadata as a JSON text."""
FORMAT = 2
"""Version of the metadata; raised when the meaning of an entry changes."""
# Header of a saved session: magic bytes; numbers of tokens, written positions, metadata bytes, dropped tokens.
_SAVED = struct.Struct("<4sIIIQ")
_MARK = b"ECS2"


@dataclass(frozen=True)
class Metadata:
    """The metadata of a language model, which `edgecore_llm.export` stores in its `.pte`.

    Attributes:
        family: The model's family, a row of `edgecore_llm.families`.
        context: Maximum number of positions of a sequence.
        chunk: Maximum number of tokens per call.
        vocabulary: The number of logits.
        eos_ids: The ids of the tokens that end a text.
        rewindable: How many of the last positions can be removed from the caches; None for all.
        chat_template: The model's chat template in Jinja; None if the checkpoint had none.
        text: The metadata as JSON text. It contains a random id of the export, so two exports of a model differ.
    """

    family: str
    context: int
    chunk: int
    vocabulary: int
    eos_ids: tuple[int, ...]
    rewindable: int | None
    chat_template: str | None
    text: str

    @classmethod
    def of(cls, program: edgecore.Program, path: str | Path) -> Metadata:
        """Read the metadata of a loaded `.pte`.

        Raises:
            SessionError: The file was not made by `edgecore llm export`.
        """
        if METADATA_METHOD not in program.methods and is_portable(program):
            return cls(**portable_facts(program, path))
        if METADATA_METHOD not in program.methods or "forward" not in program.methods:
            raise SessionError(f"{path} holds no language model; make it with: edgecore llm export")
        text = str(program[METADATA_METHOD]())
        try:
            values = json.loads(text)
            if values["format"] != FORMAT:
                raise SessionError(
                    f"{path} has format {values['format']} of edgecore-llm, and this version reads {FORMAT}; "
                    "export again"
                )
            return cls(
                family=values["family"],
                context=values["context"],
                chunk=values["chunk"],
                vocabulary=values["vocabulary"],
                eos_ids=tuple(values["eos_ids"]),
                rewindable=values["rewindable"],
                chat_template=values.get("chat_template"),
                text=text,
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise SessionError(f"the facts about the model in {path} are damaged; export it again") from error


@dataclass
class Statistics:
    """Numbers of computed tokens, and the seconds that they took, since a session began."""

    load_seconds: float = 0.0
    prompt_tokens: int = 0
    prompt_seconds: float = 0.0
    new_tokens: int = 0
    decode_seconds: float = 0.0

    def line(self) -> str:
        """Return the speeds of prompt and answer as one readable line."""
        prompt = self.prompt_tokens / self.prompt_seconds if self.prompt_seconds else 0.0
        decode = self.new_tokens / self.decode_seconds if self.decode_seconds else 0.0
        return (
            f"load {self.load_seconds:.2f} s, prompt {self.prompt_tokens} tokens at {prompt:.1f}/s, "
            f"answer {self.new_tokens} tokens at {decode:.1f}/s"
        )


class Model:
    """A loaded language model, which creates sessions. All sessions share the weights, which are memory-mapped.

    Args:
        path: A file that `edgecore llm export` made.
        threads: The number of threads; by default one for each core.

    Raises:
        SessionError: The `.pte` holds no language model.
    """

    def __init__(self, path: str | Path, *, threads: int | None = None) -> None:
        start = time.perf_counter()
        self._program: edgecore.Program | None = edgecore.load(path, threads=threads)
        self._first = self._program
        self.metadata = Metadata.of(self._program, path)
        self._program.load_method("forward")  # load `forward` now, so that the first token does not wait for it
        self.load_seconds = time.perf_counter() - start
        self._lock = threading.Lock()

    def new_session(self) -> Session:
        """Return a session with caches of its own. Sessions may run in different threads at the same time."""
        with self._lock:
            program, self._program = self._program, None
        return Session(self._first.new_session() if program is None else program, self.metadata, self.load_seconds)


@dataclass
class Session:
    """A token sequence with its key-value caches; `append` and `generate` extend the sequence.

    Attributes:
        metadata: The metadata of the model.
        tokens: The tokens whose keys and values are in the caches, in order.
        dropped: How many tokens `shift` has dropped since the sequence was empty.
        statistics: Numbers of computed tokens, and the seconds that they took.
    """

    _program: edgecore.Program
    metadata: Metadata
    load_seconds: float = 0.0
    tokens: list[int] = field(default_factory=list)
    dropped: int = 0
    statistics: Statistics = field(default_factory=Statistics)

    def __post_init__(self) -> None:
        self.statistics.load_seconds = self.load_seconds
        is_ours = METADATA_METHOD in self._program.methods
        self._forward = self._program["forward"] if is_ours else PortableForward(self._program)
        self._cancelled = threading.Event()
        # Number of positions written since the caches were last filled from position 0. `rewind` does not lower it:
        # rows that a window's ring buffer overwrote stay lost, even if the sequence is shorter now.
        self._written = 0

    @property
    def room(self) -> int:
        """The number of tokens that still fit into the context."""
        return self.metadata.context - len(self.tokens)

    def append(self, tokens: Sequence[int]) -> Logits:
        """Append tokens to the sequence, and return the logits [vocabulary] after the last of them.

        Raises:
            SessionError: There are no tokens, a token is outside of the vocabulary, or the tokens do not fit into the
                context. The sequence stays unchanged.
        """
        self._check(tokens)
        start = time.perf_counter()
        logits = self._compute_all(tokens)
        seconds = time.perf_counter() - start
        if len(tokens) > 1:
            self.statistics.prompt_tokens += len(tokens)
            self.statistics.prompt_seconds += seconds
        else:
            self.statistics.new_tokens += 1
            self.statistics.decode_seconds += seconds
        last: Logits = logits[-1]
        return last

    def logits(self, tokens: Sequence[int]) -> Logits:
        """Append tokens to the sequence, and return the logits [tokens, vocabulary] after each of them.

        Raises:
            SessionError: As for `append`.
        """
        return np.concatenate(list(self.logits_in_pieces(tokens)))

    def logits_in_pieces(self, tokens: Sequence[int]) -> Iterator[Logits]:
        """Yield the logits that `logits` returns, one chunk of tokens at a time; each chunk is computed when requested.

        Raises:
            SessionError: As for `append`.
        """
        self._check(tokens)
        return self._compute(tokens, is_last_only=False)

    def _compute(self, tokens: Sequence[int], *, is_last_only: bool) -> Iterator[Logits]:
        """Append tokens chunk by chunk; yield the logits after each token of a chunk, or after its last token only."""
        for first in range(0, len(tokens), self.metadata.chunk):
            part = np.asarray(tokens[first : first + self.metadata.chunk], np.int64)
            positions = np.arange(len(self.tokens), len(self.tokens) + len(part), dtype=np.int64)
            rows = positions[-1:] - positions[0] if is_last_only else positions - positions[0]
            end = len(self.tokens) + len(part)
            self._written = max(self._written, end) if self.tokens else end
            logits: Logits = np.array(self._forward(part, positions, rows), np.float32)
            self.tokens.extend(part.tolist())
            yield logits

    def _compute_all(self, tokens: Sequence[int]) -> Logits:
        """Append tokens, and return the logits [1, vocabulary] after the last of them."""
        return deque(self._compute(tokens, is_last_only=True), maxlen=1)[0]

    def shift(self, keep: int, count: int = 1) -> None:
        """Drop the older half of the tokens after the first `keep`, or more to make room for `count` new tokens.

        The remaining tokens are computed again at their new positions, so later results are as in a new session that
        begins with the remaining tokens. Rotating the cached keys would be faster, but the cached values would still
        depend on dropped tokens, quantized caches would be rounded at each shift, ring buffers would lack rows, and
        each file would need another method. On average, a shift computes about one prompt token per generated token,
        and prompt tokens are several times faster.

        Raises:
            SessionError: `keep` + `count` tokens do not fit into the context.
        """
        if not 0 <= keep <= len(self.tokens):
            raise SessionError(f"the first {keep} tokens cannot be kept: the sequence has {len(self.tokens)}")
        if keep + count > self.metadata.context:
            raise SessionError(
                f"{count} tokens after the {keep} that are kept do not fit into the context of "
                f"{self.metadata.context}; shorten the prompt, or keep fewer"
            )
        dropped = min(max((len(self.tokens) - keep + 1) // 2, count - self.room), len(self.tokens) - keep)
        kept = self.tokens[:keep] + self.tokens[keep + dropped :]
        start = time.perf_counter()
        self.dropped += dropped
        self._take_back_to(keep)
        if len(kept) > keep:
            self._compute_all(kept[keep:])
        self.statistics.decode_seconds += time.perf_counter() - start

    def generate(
        self, prompt: Sequence[int], max_new_tokens: int, sampling: Sampling = Sampling(temperature=0.0), *,
        ignore_eos: bool = False, vocabulary: int = 0, keep: int | None = None,
    ) -> Iterator[int]:  # fmt: skip
        """Yield the tokens of an answer; each token is computed when it is requested.

        The answer ends after `max_new_tokens`, or with an end-of-text token, which is also yielded.

        Args:
            prompt: Tokens to append to the sequence first; at least one.
            max_new_tokens: Maximum length of the answer.
            sampling: How tokens are chosen.
            ignore_eos: Continue after an end-of-text token.
            vocabulary: Number of ids of the tokenizer; only ids below it are chosen. 0 for all rows of the output
                layer.
            keep: If the context is full, `shift` drops the oldest tokens after the first `keep`. None: raise an error
                if the answer does not fit into the context.

        Raises:
            SessionError: The prompt is not valid, see `append`, or prompt and answer do not fit into the context.
        """
        if keep is not None:
            if not 0 <= keep <= self.metadata.context // 2:
                raise SessionError(
                    f"{keep} kept tokens are not between 0 and half of the context of {self.metadata.context}"
                )
            self._check_tokens(prompt)
            if len(prompt) > self.room:
                self.shift(min(keep, len(self.tokens)), len(prompt))
        self._check(prompt)
        if keep is None and max_new_tokens > 0 and len(prompt) + max_new_tokens - 1 > self.room:
            raise SessionError(
                f"a prompt of {len(prompt)} tokens and an answer of {max_new_tokens} do not fit into the context of "
                f"{self.metadata.context} tokens, of which {len(self.tokens)} are used; shorten them, or export with a "
                "longer context, or shift it"
            )
        self._cancelled.clear()
        return self._generate(prompt, max_new_tokens, sampling, ignore_eos, vocabulary, keep)

    def _generate(
        self, prompt: Sequence[int], max_new_tokens: int, sampling: Sampling, ignore_eos: bool, vocabulary: int,
        keep: int | None,
    ) -> Iterator[int]:  # fmt: skip
        logits = self.append(prompt)
        for count in range(max_new_tokens):
            if self._cancelled.is_set():
                return
            token = sample(logits, sampling, self.dropped + len(self.tokens), self.tokens, vocabulary)
            yield token
            is_end = token in self.metadata.eos_ids and not ignore_eos
            if is_end or count + 1 == max_new_tokens or self._cancelled.is_set():
                return
            if keep is not None and self.room == 0:
                self.shift(keep)
            logits = self.append([token])

    def cancel(self) -> None:
        """Stop the current `generate` after its current token or prompt; may be called from another thread."""
        self._cancelled.set()

    def rewind(self, count: int) -> None:
        """Shorten the sequence to its first `count` tokens.

        The remaining tokens are computed again if a cache has overwritten positions that they need: layers with a
        window keep only a few older positions in their ring buffers (`Metadata.rewindable`).

        Raises:
            SessionError: The sequence has fewer than `count` tokens.
        """
        if not 0 <= count <= len(self.tokens):
            raise SessionError(f"the sequence has {len(self.tokens)} tokens, so it cannot be rewound to {count}")
        if count == 0:
            self.dropped = 0
        self._take_back_to(count)

    def _take_back_to(self, count: int) -> None:
        limit = self.metadata.rewindable
        is_lost = limit is not None and self._written - count > limit
        kept = self.tokens[:count]
        self.tokens[:] = [] if is_lost else kept
        if is_lost and kept:
            self._compute_all(kept)

    def save(self) -> bytes:
        """Return the sequence and the content of its caches as bytes, which `restore` reads."""
        text = self.metadata.text.encode()
        tokens = np.asarray(self.tokens, "<i8").tobytes()
        head = _SAVED.pack(_MARK, len(self.tokens), self._written, len(text), self.dropped)
        return head + text + tokens + self._program.export_state()

    def restore(self, saved: bytes) -> None:
        """Replace the sequence and its caches by those that `save` returned for the same `.pte`.

        Raises:
            SessionError: The bytes are not a saved session of this model.
        """
        text = self.metadata.text.encode()
        if len(saved) < _SAVED.size or saved[:4] != _MARK:
            raise SessionError("these bytes are no saved session")
        _, count, written, size, dropped = _SAVED.unpack_from(saved)
        start = _SAVED.size + size
        is_possible = count <= written <= self.metadata.context and len(saved) >= start + 8 * count
        if saved[_SAVED.size : start] != text or not is_possible:
            raise SessionError("the saved session belongs to another model, or is damaged")
        tokens = np.frombuffer(saved, "<i8", count, start).tolist()
        if any(not 0 <= token < self.metadata.vocabulary for token in tokens):
            raise SessionError("the saved session is damaged: it has tokens outside of the vocabulary")
        try:
            self._program.import_state(saved[start + 8 * count :])
        except EdgecoreError as error:
            raise SessionError(f"the saved session is damaged: {error}") from error
        self.tokens[:], self._written, self.dropped = tokens, written, dropped

    def _check(self, tokens: Sequence[int]) -> None:
        self._check_tokens(tokens)
        if len(tokens) > self.room:
            raise SessionError(
                f"{len(tokens)} tokens do not fit into the context of {self.metadata.context} tokens, of which "
                f"{len(self.tokens)} are used; shorten the prompt, or export with a longer context"
            )

    def _check_tokens(self, tokens: Sequence[int]) -> None:
        if not tokens:
            raise SessionError("there are no tokens; a prompt needs at least one")
        wrong = next((token for token in tokens if not 0 <= token < self.metadata.vocabulary), None)
        if wrong is not None:
            raise SessionError(
                f"token {wrong} is outside of the model's vocabulary of {self.metadata.vocabulary}; does the tokenizer "
                "belong to the model?"
            )
