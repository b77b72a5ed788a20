"""Makes the helpers beside the tests (`zoo`, `kernels/native`, ...) importable from every test."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "kernels")]
