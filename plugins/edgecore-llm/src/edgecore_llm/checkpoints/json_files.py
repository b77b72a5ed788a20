"""Read the JSON files of checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgecore_llm.errors import CheckpointError


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that contains a JSON object.

    Raises:
        CheckpointError: The file is missing, or does not contain a JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not a JSON file: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds no JSON object")
    return content


def read_json_if_there(path: Path) -> dict[str, Any]:
    """Read a file that contains a JSON object; return {} if the file is missing.

    Raises:
        CheckpointError: The file does not contain a JSON object.
    """
    return read_json(path) if path.exists() else {}


def chat_template_of(folder: Path) -> str | None:
    """Return the chat template of a folder, from `chat_template.jinja` or from `tokenizer_config.json`.

    Raises:
        CheckpointError: A file cannot be read.
    """
    path = folder / "chat_template.jinja"
    try:
        if path.exists():
            return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    template = read_json_if_there(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(template, list):  # a list of named templates
        template = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}.get(
            "default"
        )
    return template if isinstance(template, str) else None


def token_ids(value: object) -> tuple[int, ...]:
    """Return the token ids of a JSON value such as `eos_token_id`: a number, a list of numbers, or None if missing."""
    listed = value if isinstance(value, list) else [value]
    return tuple(token for token in listed if isinstance(token, int))
