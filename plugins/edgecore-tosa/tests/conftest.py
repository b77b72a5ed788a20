"""Skip these tests if the package is not installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

if find_spec("edgecore_tosa") is None:
    collect_ignore_glob = ["*"]
