#!/bin/sh
# Vela estimates a network for an Ethos-U55 with the clock and memories of an Ethos-U85, and the other way round.
#
# Expected: a --system-config whose name has Ethos_U85 in it is refused for --accelerator-config=ethos-u55-128, or at
# least causes a warning: the clocks, ports and memories are those of another chip.
# What happens (ethos-u-vela 5.2.0): it compiles with status 0 and no word. With Ethos_U85_SYS_DRAM_Mid an Ethos-U55
# runs at 1 GHz in the estimate instead of 500 MHz, which the inferences per second show as twice as many or more. An
# Ethos-U85 with Ethos_U55_High_End_Embedded runs at half of its clock. A typing error in a build script so changes all
# estimates, and the placement of weights that follows from the memories.
# What to do: check that both options name one family; read core_clock in the summary.
# edgecore: refuses a system configuration of another family (`plugins/edgecore-ethosu/tests/test_options.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" tosa-tools==2026.8.0 ethos-u-vela==5.2.0 numpy==2.1.3)
cat > "$folder/run.py" <<'PY'
from importlib.metadata import version

from vela_command import network, vela

print("ethos-u-vela", version("ethos-u-vela"))
small, large = "ethos-u55-128", "ethos-u85-256"
old, new = "Ethos_U55_High_End_Embedded", "Ethos_U85_SYS_DRAM_Mid"
clocks = {}
for accelerator, system in ((small, old), (small, new), (large, new), (large, old)):
    summary, output = vela(network(16, 16), accelerator, system, "Sram_Only" if system == new else "Shared_Sram")
    clocks[accelerator, system] = clock = float(summary["core_clock"])
    rate = float(summary["inferences_per_second"])
    print(f"{accelerator} with {system}: {clock / 1e6:.0f} MHz, {rate:.0f} inferences per second")
    assert "warn" not in output.lower(), "the behaviour has changed"
assert clocks[small, new] == clocks[large, new] == 1e9 and clocks[large, old] == clocks[small, old] == 5e8
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
