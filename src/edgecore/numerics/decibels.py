"""The SQNR (signal to quantization noise ratio) in dB: its definition and its format. This module imports no torch."""

from __future__ import annotations

import math

LOWEST = -1000.0
"""The number that replaces an SQNR of minus infinity in JSON and HTML pages, which cannot hold infinity."""


def ratio_in_decibels(signal: float, noise: float) -> float:
    """Return the SQNR in dB of values whose norm is `signal`, and whose error has the norm `noise`.

    Without noise it is infinite, even if there is no signal; with noise but no signal it is minus infinity.
    """
    if not noise:
        return math.inf
    return 20 * math.log10(signal / noise) if signal else -math.inf


def decibels(value: float) -> str:
    """Format an SQNR: `exact` without noise, otherwise a number with one digit after the point."""
    return "exact" if value == math.inf else f"{round(value, 1) + 0.0:.1f} dB"  # adding 0.0 turns -0.0 into 0.0


def finite_decibels(value: float) -> float | None:
    """Convert an SQNR for JSON and pages: None without noise, `LOWEST` for minus infinity."""
    return None if value == math.inf else max(value, LOWEST)
