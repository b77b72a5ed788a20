"""The NPUs that Vela supports, and the settings for them in Vela's configuration files.

A configuration file is an .ini file with sections `[System_Config.NAME]`, which assign a memory to each of the NPU's
two AXI ports, and `[Memory_Mode.NAME]`, which assign a port to constants, arena and cache. A section inherits missing
keys from the section that its key `inherit` names.
"""

from __future__ import annotations

from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from edgecore.plugin import installed_file
from edgecore_tosa.spec import TosaSpec

TARGETS = (
    "ethos-u55-32",
    "ethos-u55-64",
    "ethos-u55-128",
    "ethos-u55-256",
    "ethos-u65-256",
    "ethos-u65-512",
    "ethos-u85-128",
    "ethos-u85-256",
    "ethos-u85-512",
    "ethos-u85-1024",
    "ethos-u85-2048",
)

DEFAULT_CONFIG = "Arm/vela.ini"
_DEFAULTS = {
    "u55": ("Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "u65": ("Ethos_U65_High_End", "Dedicated_Sram_384KB"),
    "u85": ("Ethos_U85_SYS_DRAM_Mid", "Sram_Only"),
}
_EXTENSIONS = {"u55": "u55", "u65": "u55", "u85": "cf"}
_ADDRESS_BITS = {"u55": 32, "u65": 40, "u85": 40}
_MAX_INHERITED = 16
_AXI_PORTS = ("Axi0", "Axi1")


def family(target: str) -> str:
    """Return the family of a target: `u55` for `ethos-u55-128`, else `u65` or `u85`."""
    return target.split("-")[1]


def tosa_spec(target: str) -> TosaSpec:
    """Return the TOSA profile and extensions that Vela supports for a target, such as `ethos-u55-128`."""
    return TosaSpec.parse(f"TOSA-1.0+INT+int16+int4+{_EXTENSIONS[family(target)]}")


def macs(target: str) -> int:
    """Return the number of multiply-accumulate units of one core of a target."""
    return 256 if target == "ethos-u65-512" else int(target.split("-")[2])


def cores(target: str) -> int:
    """Return the number of NPU cores of a target."""
    return 2 if target == "ethos-u65-512" else 1


def default_system_config(target: str) -> str:
    """Return the name of Vela's system configuration that a target uses by default."""
    return _DEFAULTS[family(target)][0]


def default_memory_mode(target: str) -> str:
    """Return the name of Vela's memory mode that a target uses by default."""
    return _DEFAULTS[family(target)][1]


@dataclass(frozen=True)
class Configuration:
    """The settings in a Vela configuration file for one system configuration and one memory mode.

    Attributes:
        text: Text of the whole file.
        core_clock: Clock rate of the NPU in Hz.
        constants: Name of the memory that holds weights, such as `OffChipFlash`.
        arena_cache_size: Maximum SRAM for the arena or the cache, in bytes; None if the memory mode does not limit it.
        address_range: Number of bytes that the NPU can address.
    """

    text: str
    core_clock: float
    constants: str
    arena_cache_size: int | None
    address_range: int


def config_path(config_ini: str) -> Path | None:
    """Return the path of a Vela configuration file; None for a file of Vela's package if Vela is not installed.

    Like the command `vela`, take a path with exactly one folder, such as `Arm/vela.ini`, for a file of Vela's package.
    """
    path = Path(config_ini).expanduser()
    if path.is_absolute() or config_ini.startswith(".") or len(path.parts) != len(Path(DEFAULT_CONFIG).parts):
        return path
    folder = installed_file("ethosu", "config_files")
    return Path(folder) / path if folder else None


def configuration(target: str, system_config: str, memory_mode: str, path: Path) -> Configuration:
    """Read and check the settings of a Vela configuration file for a target.

    Raises:
        ValueError: The file cannot be read, lacks a section, or the target does not support the memory mode.
    """
    text, parser = _parsed(path)
    systems, modes = (_names(parser, prefix) for prefix in ("System_Config.", "Memory_Mode."))
    own = [name for name in systems if not _is_of_another_family(name, target)]
    if system_config not in own:
        raise ValueError(f"system_config {system_config!r} is none for {target}: {path} has {_listed(own)}")
    possible = [name for name in modes if _problem(parser, system_config, name, target) is None]
    if memory_mode not in modes:
        raise ValueError(f"memory_mode {memory_mode!r} does not exist: {target} has {_listed(possible)}")
    if problem := _problem(parser, system_config, memory_mode, target):
        raise ValueError(f"memory_mode {memory_mode!r} is not possible, since {problem}: choose {_listed(possible)}")
    size = _value(parser, f"Memory_Mode.{memory_mode}", "arena_cache_size")
    return Configuration(
        text=text,
        core_clock=float(_value(parser, f"System_Config.{system_config}", "core_clock") or 1),
        constants=_memory(parser, system_config, memory_mode, "const_mem_area"),
        arena_cache_size=int(size) if size else None,
        address_range=1 << _ADDRESS_BITS[family(target)],
    )


@lru_cache(maxsize=4)
def _parsed(path: Path) -> tuple[str, ConfigParser]:
    parser = ConfigParser()
    try:
        text = path.read_text(encoding="utf-8")
        parser.read_string(text)
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise ValueError(f"config_ini: {path} cannot be read as a configuration file of Vela: {error}") from None
    return text, parser


def _names(parser: ConfigParser, prefix: str) -> list[str]:
    return [section.removeprefix(prefix) for section in parser.sections() if section.startswith(prefix)]


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"


def _is_of_another_family(system_config: str, target: str) -> bool:
    """Return True if, by Arm's naming convention, a system configuration is for another NPU family."""
    others = set(_DEFAULTS) - {family(target)}
    return any(system_config.lower().startswith(f"ethos_{other}") for other in others)


def _problem(parser: ConfigParser, system_config: str, memory_mode: str, target: str) -> str | None:
    """Return why a target with a system configuration cannot use a memory mode; None if it can."""
    arena, cache = (_port(parser, memory_mode, key) for key in ("arena_mem_area", "cache_mem_area"))
    if family(target) == "u55" and arena != cache:
        return "the Ethos-U55 has no dedicated SRAM"
    memory = _memory(parser, system_config, memory_mode, "arena_mem_area")
    if memory not in ("Sram", "Dram"):
        return f"the arena would be in {memory}, which cannot be written, with {system_config}"
    memory = _memory(parser, system_config, memory_mode, "cache_mem_area")
    return None if memory == "Sram" else f"the cache would be in {memory} instead of Sram with {system_config}"


def _memory(parser: ConfigParser, system_config: str, memory_mode: str, key: str) -> str:
    port = _port(parser, memory_mode, key).lower()
    return _value(parser, f"System_Config.{system_config}", f"{port}_port") or "Sram"


def _port(parser: ConfigParser, memory_mode: str, key: str) -> str:
    port = _value(parser, f"Memory_Mode.{memory_mode}", key) or _AXI_PORTS[0]
    if port not in _AXI_PORTS:
        raise ValueError(f"[Memory_Mode.{memory_mode}] has {key}={port} instead of {' or '.join(_AXI_PORTS)}")
    return port


def _value(parser: ConfigParser, section: str, key: str) -> str | None:
    for _ in range(_MAX_INHERITED):
        if not parser.has_section(section):
            raise ValueError(f"the configuration file has no section [{section}]")
        if parser.has_option(section, key):
            return parser.get(section, key)
        if not parser.has_option(section, "inherit"):
            return None
        section = parser.get(section, "inherit")
    raise ValueError(f"the configuration file has more than {_MAX_INHERITED} sections that inherit from each other")
