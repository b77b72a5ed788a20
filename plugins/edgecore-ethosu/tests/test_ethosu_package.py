"""The installed package: README, checks, the search for the simulator."""

from __future__ import annotations

from pathlib import Path

import torch

from edgecore.sdk import operators_markdown, options_markdown
from edgecore_ethosu import backend
from edgecore_ethosu.compiler import EthosUCompiler
from edgecore_ethosu.options import EthosUOptions

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_tables_of_the_readme_are_those_of_the_code():
    """If this fails, replace the tables of the README by what `edgecore backends ethosu --markdown` prints."""
    assert options_markdown(EthosUCompiler.Options) in README
    supported = EthosUCompiler().operator_support()
    of_u85 = EthosUCompiler().operator_support_with(EthosUOptions(target="ethos-u85-256"))
    assert operators_markdown(supported) in README
    assert operators_markdown([row for row in of_u85 if row not in supported]) in README


def test_operators_that_a_target_never_takes_are_not_listed_for_it():
    u55, u65, u85 = (
        {row.operator: row for row in EthosUCompiler().operator_support_with(EthosUOptions(target=f"ethos-{name}-256"))}
        for name in ("u55", "u65", "u85")
    )
    assert u55 == u65
    assert {"aten.gt.Tensor", "aten.where.self", "aten.bitwise_and.Tensor", "aten.gather.default"} <= set(u85) - set(
        u55
    )
    assert u85["aten.embedding.default"].constraints != u55["aten.embedding.default"].constraints
    real = {"aten._to_copy.default", "aten.addmm.default", "aten.scaled_dot_product_attention.default"}
    assert not real & {*u55, *u85}, "the NPUs compute with integers"


def test_the_examples_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    for block in README.split("```python\n")[1:]:
        exec(block.partition("```")[0], names)
    assert (tmp_path / "model.pte").is_file() and "1 x EthosUBackend" in str(names["program"].report())
    torch.testing.assert_close(names["result"], names["model"](*names["example"]), rtol=0, atol=0.1)


def test_the_check_of_the_package_names_what_is_missing(monkeypatch):
    assert list(EthosUCompiler().check()) == []
    monkeypatch.setattr(backend, "native_library", lambda: "/no/libedgecore_ethosu.so")
    monkeypatch.setattr(backend, "simulator_library", lambda: None)
    library, simulator = EthosUCompiler().check()
    assert library.what == "the delegate's library /no/libedgecore_ethosu.so is missing"
    assert simulator.remedy == "pip install edgecore-tosa"


def test_doctor_lists_vela_and_the_simulator(monkeypatch):
    rows = {check: detail for check, passed, detail, _ in backend.self_test() if passed}
    assert rows["Vela"].startswith("5.") and rows["TOSA simulator"]
    monkeypatch.setattr(backend, "installed", lambda package: None)
    vela, simulator = backend.self_test()
    assert vela[2] == "not installed; only compiling needs it" and "workstation" in simulator[2]


def test_the_delegate_links_neither_vela_nor_the_simulator():
    assert Path(backend.native_library()).stat().st_size < 1_000_000
