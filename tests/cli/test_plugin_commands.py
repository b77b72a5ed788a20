"""Commands that installed packages add to `edgecore`."""

from __future__ import annotations

import sys

import pytest

GREET = """
from typing import Annotated
import typer
def command(name: str, loud: Annotated[bool, typer.Option("--loud", help="Shout.")] = False) -> None:
    '''Greet somebody.'''
    print(f"hello {name}".upper() if loud else f"hello {name}")
app = typer.Typer()
@app.command()
def one() -> None:
    print("one")
@app.command()
def two() -> None:
    print("two")
"""


@pytest.fixture
def add_package(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    modules = []

    def add(distribution, command, value, source):
        module = value.partition(":")[0]
        modules.append(module)
        info = tmp_path / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[edgecore.commands]\n{command} = {value}\n")
        (tmp_path / f"{module}.py").write_text(source)

    yield add
    for module in modules:
        sys.modules.pop(module, None)


def test_a_function_is_a_command(edgecore, add_package):
    add_package("edgecore-greet", "greet", "greet_cli:command", GREET)
    assert edgecore("greet", "you", "--loud").out == "HELLO YOU\n"
    assert "Greet somebody." in edgecore("greet", "--help").out
    assert edgecore("greet").status == 2


def test_an_app_is_a_group_of_commands(edgecore, add_package):
    add_package("edgecore-greet", "greet", "greet_cli:app", GREET)
    assert edgecore("greet", "two").out == "two\n"


def test_the_help_names_an_added_command_without_importing_its_package(edgecore, add_package):
    add_package("edgecore-greet", "greet", "greet_broken:command", "raise RuntimeError('imported')")
    done = edgecore("--help")
    assert done.status == 0 and "Command of the package edgecore-greet." in done.out
    assert edgecore("backends", "--help").status == 0


def test_a_command_whose_package_is_broken_is_named(edgecore, add_package):
    add_package("edgecore-greet", "greet", "greet_broken:command", "raise RuntimeError('no luck')")
    done = edgecore("greet")
    assert done.status == 1
    assert done.err == "edgecore: the command 'greet' of edgecore-greet 1.2 cannot be loaded: RuntimeError: no luck\n"
    add_package("edgecore-other", "other", "other_cli:app", "app = 7")
    assert "other_cli:app is a int, neither a function nor a typer.Typer" in edgecore("other").err


def test_two_packages_with_one_command_are_both_named(edgecore, add_package):
    add_package("edgecore-greet", "greet", "greet_cli:command", GREET)
    add_package("edgecore-salute", "greet", "salute_cli:command", GREET)
    assert "edgecore-greet and edgecore-salute" in edgecore("greet", "you").err


def test_no_package_replaces_a_command_of_edgecore(edgecore, add_package):
    add_package("edgecore-greet", "backends", "greet_cli:command", GREET)
    assert "hello" not in edgecore("backends").out
