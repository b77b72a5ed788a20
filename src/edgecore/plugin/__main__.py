"""Paths for the build of a plugin: `python -m edgecore.plugin --include-dir | --cmake-dir`."""

from __future__ import annotations

import sys
from pathlib import Path

import edgecore

# In the installed package, and in the source tree that edgecore may run from. An editable installation is both.
_FOLDERS = {"--include-dir": ("native/include", "runtime_cpp/include"), "--cmake-dir": ("cmake", "cmake")}


def main(arguments: list[str]) -> int:
    """Print the path that is asked for; 2 for wrong usage, 1 if this edgecore holds no such folder."""
    if len(arguments) != 1 or arguments[0] not in _FOLDERS:
        print("usage: python -m edgecore.plugin --include-dir | --cmake-dir", file=sys.stderr)
        return 2
    installed, of_source = _FOLDERS[arguments[0]]
    candidates = [Path(package).absolute() / installed for package in edgecore.__path__]
    candidates.append(Path(__file__).resolve().parents[3] / of_source)
    for folder in candidates:
        if folder.is_dir():
            print(folder.as_posix())
            return 0
    print(
        f"{candidates[0]} does not exist: this edgecore came without its headers; "
        "run: pip install --force-reinstall --no-deps edgecore",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
