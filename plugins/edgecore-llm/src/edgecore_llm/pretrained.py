"""Generate text from a checkpoint or an exported file with few calls, like `transformers` and Optimum."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from edgecore.sdk import write_files
from edgecore_llm.errors import ConfigError, SessionError
from edgecore_llm.runner.answer import answer_text
from edgecore_llm.runner.session import Model
from edgecore_llm.sampler import Sampling
from edgecore_llm.template import ChatTemplate, open_template
from edgecore_llm.tokenizer.hugging_face import HuggingFaceTokenizer
from edgecore_llm.tokenizer.open import open_tokenizer
from edgecore_llm.tokenizer.stream import TextStream
from edgecore_llm.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:  # import torch only for type checkers: running a `.pte` needs no torch
    from edgecore_llm.export import ExportOptions

_FILE = "model.pte"
_GREEDY = Sampling(temperature=0.0)
_CONFIGURATIONS = ("tokenizer_config.json", "generation_config.json", "chat_template.jinja")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tokenizer.bin", *_CONFIGURATIONS)


class EdgecoreModelForCausalLM:
    """A model with its tokenizer. Each call replaces its only sequence, so each thread needs its own object.

    Args:
        file: A file that `edgecore llm export` made.
        tokenizer: The folder or file of the tokenizer.
        threads: The number of threads; by default one for each core.

    Attributes:
        model: The loaded `.pte`, which can create further sessions.
        tokenizer: The tokenizer.
        file: The path of the loaded `.pte`.
    """

    def __init__(self, file: Path, tokenizer: Path, *, threads: int | None = None) -> None:
        self.file, self._tokenizer_path = file, tokenizer
        self.tokenizer: Tokenizer = open_tokenizer(tokenizer)
        self.model = Model(file, threads=threads)
        self.tokenizer.check_fit(self.model.metadata.vocabulary)
        self._session = self.model.new_session()
        # Number of answers begun. They share one KV cache, which a new answer overwrites, so older ones must stop.
        self._answers = 0

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        *,
        tokenizer: str | Path | None = None,
        options: ExportOptions | None = None,
        file: str | Path | None = None,
        threads: int | None = None,
    ) -> EdgecoreModelForCausalLM:
        """Load a model, or export and load it; `edgecore_llm.from_pretrained` describes the arguments."""
        path = Path(name_or_path)
        if path.suffix == ".pte" and not path.is_file():
            raise SessionError(f"there is no file {path}")
        if path.suffix == ".pte" or (path / _FILE).is_file():
            if options is not None or file is not None:
                raise ConfigError(
                    f"{path} is exported already, so options and file have no effect; give the checkpoint"
                )
            folder, exported = (path.parent, path) if path.suffix == ".pte" else (path, path / _FILE)
            return cls(exported, folder if tokenizer is None else Path(tokenizer), threads=threads)
        from edgecore_llm.checkpoints.hub import model_path
        from edgecore_llm.checkpoints.open import open_checkpoint
        from edgecore_llm.export import ExportOptions, export

        path = model_path(name_or_path)
        tokenizer = path if tokenizer is None else Path(tokenizer)
        open_tokenizer(tokenizer)  # fail before the long export
        checkpoint = open_checkpoint(path)
        if options is None:
            context = min(ExportOptions().context, checkpoint.config.max_context)
            options = ExportOptions(context=context, chunk=min(ExportOptions().chunk, context))
        temporary = None
        if file is None:
            temporary = Path(tempfile.mkdtemp(prefix="edgecore-llm-"))
            file = temporary / _FILE
        exported = Path(file)
        try:
            export(checkpoint, exported, options)
            model = cls(exported, tokenizer, threads=threads)
        except BaseException:
            if temporary is not None:
                shutil.rmtree(temporary, ignore_errors=True)
            raise
        if temporary is not None:
            weakref.finalize(model, shutil.rmtree, temporary, ignore_errors=True)
        return model

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the `.pte` and the tokenizer into a folder that `from_pretrained` loads without an export."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        copied, texts = {_FILE: self.file}, dict[str, str]()
        source = self._tokenizer_path
        beside = source if source.is_dir() else source.parent
        for name in _TOKENIZER_FILES if source.is_dir() else _CONFIGURATIONS:
            if (beside / name).is_file():
                copied[name] = beside / name
        if source.suffix == ".gguf" and isinstance(self.tokenizer, HuggingFaceTokenizer):
            generation = {"eos_token_id": list(self.tokenizer.eos_ids)}
            texts["tokenizer.json"] = self.tokenizer.text
            texts["tokenizer_config.json"] = json.dumps(self._tokenizer_facts())
            texts["generation_config.json"] = json.dumps(generation)
        elif source.is_file():
            copied[f"tokenizer{source.suffix}"] = source
        write_files(
            {folder / name: partial(_copy, path) for name, path in copied.items() if not _is_same(path, folder / name)}
            | {folder / name: text for name, text in texts.items()}
        )

    def _tokenizer_facts(self) -> dict[str, Any]:
        """Return the content of a `tokenizer_config.json` for a tokenizer that was stored in a GGUF file."""
        bos = self.tokenizer.bos_id
        return {
            "add_bos_token": self.tokenizer.adds_bos,
            "bos_token": None if bos is None else self.tokenizer.token_bytes(bos).decode("utf-8", "replace"),
            "chat_template": self.tokenizer.chat_template,
        }

    def stream(
        self, prompt: str | Sequence[int], max_new_tokens: int = 128, sampling: Sampling = _GREEDY, *,
        stops: Sequence[str] = (), ignore_eos: bool = False,
    ) -> Iterator[str]:  # fmt: skip
        """Yield the pieces of an answer, each of whole characters.

        Args:
            prompt: The text, or its tokens.
            max_new_tokens: Maximum length of the answer.
            sampling: How tokens are chosen; by default the most probable ones.
            stops: The answer ends before the first of these texts.
            ignore_eos: Continue after an end-of-text token.

        Raises:
            SessionError: As for `Session.generate`, raised when the first piece is requested; or another answer began
                before this one ended.
        """
        tokens = self.tokenizer.encode(prompt, bos=True) if isinstance(prompt, str) else list(prompt)
        answer = self._answer(tokens, max_new_tokens, sampling, ignore_eos)
        return answer_text(answer, TextStream(self.tokenizer), stops)

    def _answer(
        self, tokens: Sequence[int], max_new_tokens: int, sampling: Sampling, ignore_eos: bool
    ) -> Iterator[int]:
        """Replace the model's current sequence by `tokens`, and yield the tokens of the answer to it."""
        self._answers += 1
        number = self._answers
        self._session.rewind(0)
        answer = self._session.generate(
            tokens, max_new_tokens, sampling, ignore_eos=ignore_eos, vocabulary=self.tokenizer.vocabulary
        )
        while True:
            if number != self._answers:
                raise SessionError(
                    "a later answer has taken the sequence of this model; end one before the next begins"
                )
            token = next(answer, None)
            if token is None:
                return
            yield token

    def generate(
        self, prompt: str | Sequence[int], max_new_tokens: int = 128, sampling: Sampling = _GREEDY, *,
        stops: Sequence[str] = (), ignore_eos: bool = False,
    ) -> str:  # fmt: skip
        """Return the whole text of an answer; `stream` describes the arguments."""
        return "".join(self.stream(prompt, max_new_tokens, sampling, stops=stops, ignore_eos=ignore_eos))

    def chat(
        self, messages: Sequence[Mapping[str, Any]], max_new_tokens: int | None = None, sampling: Sampling = _GREEDY,
        **variables: Any,
    ) -> str:  # fmt: skip
        """Return the model's answer to the messages of a chat.

        Args:
            messages: The messages, each with `role` and `content`.
            max_new_tokens: Maximum length of the answer; by default 512, or the rest of the context.
            sampling: How tokens are chosen; by default the most probable ones.
            variables: Other variables of the template, such as `tools` or `enable_thinking`.

        Raises:
            TokenizerError: There is no chat template, or it refuses the messages.
            SessionError: As for `Session.generate`.
        """
        template: ChatTemplate = open_template(self.tokenizer, self.model.metadata.chat_template)
        tokens = template.encode(self.tokenizer, messages, **variables)
        if max_new_tokens is None:
            max_new_tokens = max(1, min(512, self.model.metadata.context - len(tokens) + 1))
        return self.generate(tokens, max_new_tokens, sampling)


def _copy(source: Path, target: BinaryIO) -> None:
    with source.open("rb") as file:
        shutil.copyfileobj(file, target)


def _is_same(source: Path, target: Path) -> bool:
    return target.exists() and source.samefile(target)
