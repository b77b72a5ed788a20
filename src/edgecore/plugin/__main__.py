"""Paths for the build of a plugin: `python -m edgecore.plugin --include-dir | --cmake-dir`."""

from __future__ import annotations

import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Print the path that is asked for; 2 for wrong usage, 1 if this edgecore holds no such folder."""
    folders = {"--include-dir": "native/include", "--cmake-dir": "cmake"}
    if len(arguments) != 1 or arguments[0] not in folders:
        print("usage: python -m edgecore.plugin --include-dir | --cmake-dir", file=sys.stderr)
        return 2
    folder = Path(__file__).resolve().parent.parent / folders[arguments[0]]
    if not folder.is_dir():
        print(f"{folder} does not exist: edgecore runs from its source tree; install its wheel", file=sys.stderr)
        return 1
    print(folder.as_posix())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
