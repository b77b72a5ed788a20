"""Print paths for the build of a plugin: `python -m edgecore.plugin --include-dir | --cmake-dir`."""

from __future__ import annotations

import sys
from pathlib import Path

import edgecore

# For each option: the folder in an installed package, and the folder in a source tree, which an editable installation
# uses. Both are tried.
_FOLDERS = {"--include-dir": ("native/include", "runtime_cpp/include"), "--cmake-dir": ("cmake", "cmake")}


def main(arguments: list[str]) -> int:
    """Print the requested path. Return the exit status: 2 for wrong usage, 1 if the folder does not exist, else 0."""
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
