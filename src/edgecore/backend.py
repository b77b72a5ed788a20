"""How users name a backend with its options."""

from __future__ import annotations

from typing import Any


class Backend:
    """A backend by name, with options that its package defines: `Backend("qnn", soc="SM8650", required=True)`.

    `required` makes every operator that no backend takes an error.
    """

    def __init__(self, name: str, *, required: bool = False, **options: Any) -> None:
        self.name = name
        self.required = required
        self.options = options

    def __repr__(self) -> str:
        return f"Backend({self.name!r}, required={self.required}, {self.options})"
