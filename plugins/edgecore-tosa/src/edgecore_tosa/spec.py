"""Parse TOSA specifications: the profile and extensions that a target supports."""

from __future__ import annotations

import re
from dataclasses import dataclass

PROFILES = ("INT", "FP")
EXTENSIONS = ("int16", "int4", "cf", "u55")
"""Extensions: int16 activations, int4 weights, control flow, and `u55` for the limits of Ethos-U55 and U65."""


@dataclass(frozen=True)
class TosaSpec:
    """A TOSA 1.0 specification such as `TOSA-1.0+INT+int16+int4+u55`.

    Attributes:
        integer: The target supports quantized operators (profile INT).
        floating: The target supports floating-point operators (profile FP).
        extensions: The supported extensions, names in `EXTENSIONS`.
    """

    integer: bool = True
    floating: bool = False
    extensions: frozenset[str] = frozenset()

    @property
    def is_u55(self) -> bool:
        """True for a target with the limits of Ethos-U55 and U65."""
        return "u55" in self.extensions

    @classmethod
    def parse(cls, text: str) -> TosaSpec:
        """Parse a specification such as `TOSA-1.0+INT+int16`.

        Raises:
            ValueError: The text is not a specification, or names an unknown version, profile or extension.
        """
        match = re.fullmatch(r"TOSA-(\d+)\.(\d+)(?:\.\d+)?((?:\+\w+)*)", text)
        if match is None:
            raise ValueError(f"{text!r} is no TOSA specification: write, for example, 'TOSA-1.0+INT+int16'")
        if match[1] != "1":
            raise ValueError(f"{text!r}: only version 1 of TOSA is supported")
        parts = match[3].split("+")[1:]
        unknown = [part for part in parts if part not in (*PROFILES, *EXTENSIONS)]
        if unknown:
            raise ValueError(
                f"{text!r}: unknown {unknown[0]!r}; there are the profiles {', '.join(PROFILES)} and the extensions "
                f"{', '.join(EXTENSIONS)}"
            )
        if not set(parts) & set(PROFILES):
            raise ValueError(f"{text!r} has no profile: add +INT, +FP or both")
        return cls("INT" in parts, "FP" in parts, frozenset(parts) & frozenset(EXTENSIONS))

    def __str__(self) -> str:
        profiles = [name for name, has in zip(PROFILES, (self.integer, self.floating), strict=True) if has]
        extensions = [name for name in EXTENSIONS if name in self.extensions]
        return "+".join(["TOSA-1.0", *profiles, *extensions])
