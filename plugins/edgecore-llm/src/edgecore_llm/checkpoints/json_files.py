"""JSON files of checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgecore_llm.errors import CheckpointError


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        CheckpointError: The file is missing or holds something else.
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


def token_ids(value: object) -> tuple[int, ...]:
    """Return the ids of a configuration's entry, which is a number, a list of them, or missing."""
    listed = value if isinstance(value, list) else [value]
    return tuple(token for token in listed if isinstance(token, int))
