#!/bin/sh
# Vela's summary counts the weights of the memory mode Sram_Only as on-chip flash, not as SRAM.
#
# Expected: in the mode Sram_Only, which vela.ini describes as all of the network in SRAM, sram_memory_used includes the
# weights, and weights_storage_area says SRAM.
# What happens (ethos-u-vela 5.2.0): weights_storage_area is "On-chip Flash", and sram_memory_used has the feature maps
# only: 32 KiB for a convolution whose weights take 37 KiB more of the same SRAM on an Ethos-U55 and 41 on an Ethos-U85,
# for systems that have no on-chip flash. A board with 64 KiB of SRAM looks large enough and is not.
# What to do: add on_chip_flash_memory_used to sram_memory_used in this mode.
# edgecore: reports these weights as SRAM beside the rest (`plugins/edgecore-ethosu/tests/vela/test_compile.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" tosa-tools==2026.8.0 ethos-u-vela==5.2.0 numpy==2.1.3)
cat > "$folder/run.py" <<'PY'
from importlib.metadata import version

from vela_command import network, vela

print("ethos-u-vela", version("ethos-u-vela"))
systems = (("ethos-u55-128", "Ethos_U55_High_End_Embedded"), ("ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid"))
for accelerator, system in systems:
    summary, _ = vela(network(64, 16), accelerator, system, "Sram_Only")
    sram, flash = (float(summary[key]) for key in ("sram_memory_used", "on_chip_flash_memory_used"))
    weights = float(summary["total_npu_encoded_weights"]) / 1024
    area = summary["weights_storage_area"]
    print(f"{accelerator}: weights in {area}, {weights:.1f} KiB; SRAM {sram} KiB, on-chip flash {flash:.1f} KiB")
    assert area == "On-chip Flash" and sram == 32 and flash > weights > 30, "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
