"""Brings steps of the build up to date: `make .stamps/NAME`, or `python3 tools/make NAME ...`.

The Makefile calls this and sets the compilers. `plugins.toml` lists the plugins; `packages.py` and `native.py` have the
steps, `parts.py` the parts of `make test-all`; `steps.py` has the rule by which a step runs or is skipped.
"""

from __future__ import annotations

import argparse
import shutil

import steps
from native import native_steps
from packages import VENV_PYTHON, core_step, plugin_step, setup_steps
from parts import part_steps
from plugins import Plugin, read_plugins
from steps import Step


def all_steps(plugins: dict[str, Plugin]) -> dict[str, Step]:
    """Return all steps by name."""
    conformance = {f"conformance-{name}": conformance_step(plugins[name]) for name in with_key("conformance", plugins)}
    tidy = ("runtime_cpp", ".clang-tidy")
    return {
        **setup_steps(),
        **native_steps(plugins),
        **conformance,
        **part_steps(),
        "core": core_step(),
        **{name: plugin_step(plugin) for name, plugin in plugins.items()},
        "demo": Step("all that the demo needs is installed", lambda: None, needs=("xnnpack", "torchvision", "sklearn")),
        "plugins": Step("all plugins are installed", lambda: None, needs=tuple(plugins)),
        "conformance": Step("all conformance suites passed", lambda: None, needs=tuple(conformance)),
        "clang-tidy": Step("names in C++", lambda: steps.run("tools/clang_tidy.sh"), tidy, needs=("native-tests",)),
    }


def with_key(key: str, plugins: dict[str, Plugin]) -> list[str]:
    """Return the names of the plugins whose entry has a key, such as `conformance`."""
    return [name for name, plugin in plugins.items() if getattr(plugin, key) not in (None, False)]


def conformance_step(plugin: Plugin) -> Step:
    """Return the step that runs the whole conformance suite on a plugin."""
    options = [option.format(python=VENV_PYTHON) for option in plugin.conformance or ()]
    return Step(
        f"conformance of edgecore-{plugin.name}",
        lambda: steps.run(".venv/bin/edgecore", "conformance", plugin.name, *options),
        needs=("core", plugin.name),
    )


def main() -> None:
    """Run the command line."""
    plugins = read_plugins()
    known = all_steps(plugins)
    parser = argparse.ArgumentParser(prog="tools/make", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=", ".join(name for name in known if not name.startswith("part-"))
    )
    parser.add_argument("--dry-run", action="store_true", help="print the commands that would run")
    parser.add_argument("--with", dest="key", metavar="KEY", help="print the plugins whose entry has this key")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in known]:
        parser.error(f"no step is called {unknown[0]}; there are {', '.join(known)}")
    if arguments.key:
        print(*with_key(arguments.key, plugins))
    steps.DRY_RUN = arguments.dry_run
    if not VENV_PYTHON.exists() and not arguments.dry_run:  # without .venv, the packages of the stamps are gone
        shutil.rmtree(steps.STAMPS, ignore_errors=True)
    steps.bring_up_to_date(arguments.names, known)


if __name__ == "__main__":
    main()
