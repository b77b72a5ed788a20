#!/bin/sh
# Vela compiles a network that needs more SRAM than --arena-cache-size allows, and does not say so.
#
# Expected: --arena-cache-size is a limit: if the scheduler cannot keep the feature maps within it, Vela ends with an
# error or prints a warning, since the network will not fit into the memory of the board.
# What happens (ethos-u-vela 5.2.0): a convolution of 64x64x16, with --arena-cache-size of 40,000 bytes, is compiled
# with status 0 and uses 128 KiB of SRAM, as its input and output take 64 KiB each. No line of the output has a warning;
# the size that was asked for stands in the summary, beside the size used. On the device the network writes past the
# arena, or its allocation fails.
# What to do: compare sram_memory_used (KiB) in the summary with the SRAM of the board, in the script that calls Vela.
# edgecore: raises an error if a graph needs more SRAM than the limit
# (`plugins/edgecore-ethosu/tests/vela/test_compile.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" tosa-tools==2026.8.0 ethos-u-vela==5.2.0 numpy==2.1.3)
cat > "$folder/run.py" <<'PY'
from importlib.metadata import version

from vela_command import network, vela

print("ethos-u-vela", version("ethos-u-vela"))
wanted = 40_000
arguments = ("ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram", f"--arena-cache-size={wanted}")
summary, output = vela(network(16, 64), *arguments)
used = float(summary["sram_memory_used"]) * 1024
print(f"asked for {wanted} bytes, arena_cache_size {summary['arena_cache_size']} KiB, used {used:.0f} bytes")
print("lines with a warning:", [line for line in output.splitlines() if "warn" in line.lower()])
assert float(summary["arena_cache_size"]) * 1024 == wanted and used == 2 * 64 * 64 * 16, "the behaviour has changed"
assert "warn" not in output.lower(), "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
