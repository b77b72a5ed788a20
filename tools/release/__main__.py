"""Builds, checks, describes and installs all that a release publishes: ``python tools/release [STEP ...]``.

The packages are in ``dist/publish``, and what describes them in ``dist/release``. Without a STEP all run, in order:

build     wheels for each platform of plugins.toml, and sdists
check     metadata: twine, check-wheel-contents, abi3audit, and that no file is missing
describe  SHA256SUMS, sbom.cdx.json (CycloneDX) and the table of sizes in README.md
install   the packages in empty environments; examples run in them
"""

from __future__ import annotations

import argparse

import artifacts
import checks
import description
import installation

STEPS = {
    "build": artifacts.build_all,
    "check": checks.check_all,
    "describe": description.describe_all,
    "install": installation.install_all,
}


def main() -> None:
    """Run the steps that the command line names."""
    parser = argparse.ArgumentParser(
        prog="tools/release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(STEPS))
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.steps if name not in STEPS]:
        parser.error(f"no step is called {unknown[0]}; there are {', '.join(STEPS)}")
    for name, step in STEPS.items():
        if name in (arguments.steps or STEPS):
            print(f"==> {name}", flush=True)
            step()


if __name__ == "__main__":
    main()
