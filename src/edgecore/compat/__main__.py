"""`python -m edgecore.compat script.py`: the same as `python -m edgecore.executorch script.py`."""

import sys

from edgecore.executorch.__main__ import main

if __name__ == "__main__":
    main(sys.argv[1:])
