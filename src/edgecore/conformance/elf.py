"""Read the symbols that a shared library exports from its ELF file, without an external tool.

Format: System V ABI, chapters 4 and 5 (https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html).
"""

from __future__ import annotations

import struct
from pathlib import Path

_SHT_DYNSYM = 11
_SHN_UNDEF = 0
_STB_LOCAL = 0
_VISIBLE = (0, 3)  # STV_DEFAULT, STV_PROTECTED


def exported_symbols(path: Path) -> list[str] | None:
    """Read the names of the defined, visible dynamic symbols.

    Args:
        path: Path of the library.

    Returns:
        The names, sorted; None if the file is not a 64-bit ELF file.

    Raises:
        ValueError: The file is damaged: its tables lie outside of the file.
    """
    data = path.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        return None
    order = "<" if data[5] == 1 else ">"
    try:
        return _symbols(data, order)
    except (struct.error, IndexError) as error:
        raise ValueError(f"{path} is damaged: its section tables lie outside it") from error


def _symbols(data: bytes, order: str) -> list[str]:
    (section_offset,) = struct.unpack_from(order + "Q", data, 40)
    entry_size, count = struct.unpack_from(order + "HH", data, 58)
    # Fields of a section header: name, type, flags, address, offset, size, link, info, alignment, entry size.
    sections = [struct.unpack_from(order + "IIQQQQIIQQ", data, section_offset + i * entry_size) for i in range(count)]
    names: list[str] = []
    for section in sections:
        if section[1] != _SHT_DYNSYM:
            continue
        offset, size, link, symbol_size = section[4], section[5], section[6], section[9]
        strings = sections[link][4]
        for at in range(offset, offset + size, symbol_size):
            name, info, other, index = struct.unpack_from(order + "IBBH", data, at)
            if index != _SHN_UNDEF and info >> 4 != _STB_LOCAL and other & 3 in _VISIBLE:
                end = data.index(b"\0", strings + name)
                names.append(data[strings + name : end].decode(errors="replace"))
    return sorted(names)
