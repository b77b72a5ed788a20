"""`python -m edgecore.executorch script.py [arguments]` and `python -m edgecore.executorch -m module [arguments]`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from edgecore.executorch.finder import install

USAGE = "usage: python -m edgecore.executorch (SCRIPT | -m MODULE) [ARGUMENTS]"


def main(arguments: list[str]) -> None:
    """Run a script or a module in which imports of ExecuTorch return edgecore's counterparts.

    Args:
        arguments: The path of the script, or `-m` and the name of the module; then their own arguments.

    Raises:
        SystemExit: The script does not exist, no script or module was passed, or the script itself exits.
    """
    if arguments[:1] == ["-m"] and len(arguments) > 1:
        install()
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments and not arguments[0].startswith("-"):
        if not Path(arguments[0]).is_file():
            sys.exit(f"there is no script {arguments[0]}")
        install()
        sys.argv = arguments
        is_safe = getattr(sys.flags, "safe_path", sys.flags.isolated)
        if not is_safe:  # sys.path begins with the folder of `python -m`: replace it by the script's folder
            sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")
    else:
        print(USAGE)
        sys.exit(0 if arguments[:1] in (["-h"], ["--help"]) else 2)


if __name__ == "__main__":
    main(sys.argv[1:])
