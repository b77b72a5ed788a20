"""Parse the backend's option `extra_flags`: additional flags of Vela's command line."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

_OF_OPTIONS = {
    "--accelerator-config": "target",
    "--config": "config_ini",
    "--system-config": "system_config",
    "--memory-mode": "memory_mode",
    "--output-dir": "dump_intermediate_artifacts_to",
}
_DEFAULT_ALIGNMENT = 16


@dataclass(frozen=True)
class Flags:
    """The values of Vela's flags.

    Attributes:
        optimise: `Performance` or `Size`.
        arena_cache_size: Maximum SRAM to plan with, in bytes; None for the memory mode's limit.
        cpu_tensor_alignment: Alignment of inputs and outputs in bytes.
        others: Flags that exist only on Vela's command line, such as `--verbose-performance`.
    """

    optimise: str
    arena_cache_size: int | None
    cpu_tensor_alignment: int
    others: tuple[str, ...]


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"extra_flags: {message}")


def split_flags(flags: Sequence[str]) -> tuple[str, ...]:
    """Split strings such as `--optimise Size` at spaces, as a shell does."""
    return tuple(word for flag in flags for word in flag.split())


def parse_flags(flags: Sequence[str]) -> Flags:
    """Parse flags of Vela's command line, such as `--optimise=Size`.

    Raises:
        ValueError: A value is not allowed, or a flag is one that the backend sets itself, such as `--config`.
    """
    for flag in flags:
        name = flag.partition("=")[0]
        if name in _OF_OPTIONS:
            raise ValueError(f"extra_flags: the option {_OF_OPTIONS[name]} of the backend sets {name}")
        if name == "--separate-io-regions":
            raise ValueError(f"extra_flags: {name} cannot be set, since a delegate has its arguments in one region")
    parser = _Parser(add_help=False, allow_abbrev=False, argument_default=SUPPRESS)
    parser.add_argument("--optimise", choices=("Performance", "Size"), default="Performance")
    parser.add_argument("--arena-cache-size", type=int, default=None)
    parser.add_argument("--cpu-tensor-alignment", type=int, default=_DEFAULT_ALIGNMENT)
    # Accept three flags that ExecuTorch's users pass: without the flags, the backend already does what they request.
    parser.add_argument("--output-format", choices=("raw",))
    parser.add_argument("--cop-format", choices=("COP1",))
    parser.add_argument("--debug-force-regor", action="store_true")
    known, others = parser.parse_known_args(list(flags))
    if known.arena_cache_size is not None and known.arena_cache_size < 0:
        raise ValueError(f"extra_flags: --arena-cache-size is {known.arena_cache_size} bytes; it must be 0 or more")
    alignment = known.cpu_tensor_alignment
    if alignment < _DEFAULT_ALIGNMENT or alignment & (alignment - 1):
        raise ValueError(f"extra_flags: --cpu-tensor-alignment is {alignment}; it must be a power of 2 from 16")
    return Flags(known.optimise, known.arena_cache_size, alignment, tuple(others))
