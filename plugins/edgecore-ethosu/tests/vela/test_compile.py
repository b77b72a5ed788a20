"""Vela: by its module and by its command line, errors, estimates."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError

import pytest
import torch
from ethosu_models import CONV_INPUTS, Conv, compiled, conv_tosa

import edgecore
import edgecore.format as fmt
from edgecore.devtools.memory import delegate_needs
from edgecore.errors import CompileError, FallbackWarning
from edgecore_ethosu.blob import write_blob
from edgecore_ethosu.compiler import EthosUCompiler
from edgecore_ethosu.options import EthosUOptions
from edgecore_ethosu.vela import compile as vela
from edgecore_ethosu.vela.compile import compile_tosa


@pytest.fixture(scope="module")
def tosa(tmp_path_factory) -> bytes:
    return conv_tosa(tmp_path_factory.mktemp("tosa"))


def forbid_the_command_line(monkeypatch) -> None:
    monkeypatch.setattr(vela, "_compile_by_command", lambda *args: pytest.fail("the command line was called"))


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512", "ethos-u85-256"])
def test_both_ways_give_the_same_result(monkeypatch, tosa, target):
    options = EthosUOptions(target=target)
    monkeypatch.setattr(vela, "_compile_by_module", lambda *args: None)
    by_command = compile_tosa(tosa, options)
    monkeypatch.undo()
    forbid_the_command_line(monkeypatch)
    assert compile_tosa(tosa, options) == by_command
    assert by_command.program.command_stream[:4] == b"COP1"
    assert by_command.report.npu_operators > 0


def regor_that(action: str) -> tuple[str, ...]:
    """Return a command that compiles with a changed `ethosu.regor`."""
    lines = ("import sys", "import ethosu.regor", action, "from edgecore_ethosu.vela import regor_process as process")
    return (sys.executable, "-c", "; ".join((*lines, "process.main()")))


@pytest.mark.parametrize(
    "change",
    [
        "del ethosu.regor; sys.modules['ethosu.regor'] = None",
        "ethosu.regor.compile = lambda graph: None",
        "ethosu.regor.compile = lambda *args, **kwargs: object()",
    ],
)
def test_another_interface_of_the_module_means_the_command_line(monkeypatch, tosa, change):
    expected = compile_tosa(tosa, EthosUOptions())
    monkeypatch.setattr(vela, "REGOR", regor_that(change))
    assert compile_tosa(tosa, EthosUOptions()) == expected


def test_what_the_compiler_prints_is_not_its_result(monkeypatch, tosa):
    expected = compile_tosa(tosa, EthosUOptions())
    change = (
        "compile = ethosu.regor.compile; "
        "ethosu.regor.compile = lambda *args, **kwargs: print('a message', flush=True) or compile(*args, **kwargs)"
    )
    monkeypatch.setattr(vela, "REGOR", regor_that(change))
    assert compile_tosa(tosa, EthosUOptions()) == expected


@pytest.mark.parametrize("flags", [(), ("--verbose-performance",)])
def test_a_crash_of_vela_costs_only_its_partition(monkeypatch, tmp_path, flags):
    dies = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr(vela, "REGOR", (sys.executable, "-c", dies))
    (tmp_path / "ethosu").mkdir()
    (tmp_path / "ethosu" / "__init__.py").touch()
    (tmp_path / "ethosu" / "vela.py").write_text(dies)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    model, backend = Conv().eval(), edgecore.Backend("ethosu", extra_flags=flags)
    with pytest.warns(
        FallbackWarning, match=r"Vela ended with signal \d+ \(SIG\w+\) while it compiled the TOSA graph for ethos-u55"
    ):
        program = edgecore.compile(model, CONV_INPUTS, backends=[backend])
    torch.testing.assert_close(edgecore.load(program).forward(*CONV_INPUTS), model(*CONV_INPUTS))


def test_a_flag_of_the_command_line_only_is_passed_to_it(tmp_path, tosa):
    options = EthosUOptions(extra_flags=["--verbose-performance"])
    assert compile_tosa(tosa, options, folder=tmp_path) == compile_tosa(tosa, EthosUOptions())
    assert "NPU operators = " in (tmp_path / "vela.log").read_text()
    assert list(tmp_path.glob("*per-layer*.csv"))


def test_the_memory_modes_place_the_weights_where_they_should_be(tosa):
    memories = {
        mode: compile_tosa(tosa, EthosUOptions(target="ethos-u65-256", memory_mode=mode)).report.memories
        for mode in ("Sram_Only", "Shared_Sram", "Dedicated_Sram")
    }
    assert set(memories["Sram_Only"]) == {"Sram", "OnChipFlash"}
    assert set(memories["Shared_Sram"]) == set(memories["Dedicated_Sram"]) == {"Sram", "Dram"}
    assert memories["Dedicated_Sram"]["Dram"].peak > memories["Shared_Sram"]["Dram"].peak


def test_a_file_says_what_memory_its_device_needs(tosa):
    for target, fast in (("ethos-u55-128", False), ("ethos-u65-256", True)):
        result = compile_tosa(tosa, EthosUOptions(target=target))
        pte = fmt.read_pte(bytes(compiled(Conv(), CONV_INPUTS, target=target, include_tosa=False).buffer))
        arena, *others = fmt.get_meta(pte).method("forward").delegates[0].memory
        assert (arena.kind.name, arena.space, arena.alignment) == ("SCRATCH", 0, 32)
        assert arena.bytes % 32 == 0 and 0 <= arena.bytes - result.program.scratch_size < 32
        assert [(need.space, need.bytes) for need in others] == [(1, result.fast_scratch_size)] * fast
        needs = delegate_needs(pte, "forward")["EthosUBackend"]
        assert needs.get("scratch on device", 0) == result.fast_scratch_size
        assert (result.fast_scratch_size != 0) == fast


def test_the_size_strategy_never_needs_more_memory(tosa):
    plain, small = (compile_tosa(tosa, EthosUOptions(extra_flags=flags)) for flags in ((), ("--optimise=Size",)))
    assert small.program.scratch_size <= plain.program.scratch_size


def test_too_little_memory_is_an_error(tosa):
    with pytest.raises(CompileError, match=r"needs [\d,]+ bytes of SRAM and Shared_Sram of ethos-u55-128 has 64: try"):
        compile_tosa(tosa, EthosUOptions(extra_flags=["--arena-cache-size=64"]))


@pytest.mark.parametrize("flags", [(), ("--verbose-graph",)])
def test_the_message_of_vela_is_kept(tosa, flags):
    with pytest.raises(
        CompileError, match=r"Vela cannot compile the TOSA graph for ethos-u55-128: TOSA FB Reader error"
    ):
        compile_tosa(tosa[:500], EthosUOptions(extra_flags=flags))


def test_an_unknown_flag_is_refused_with_its_name(tosa):
    with pytest.raises(CompileError, match="unrecognized arguments: --no-such-flag"):
        compile_tosa(tosa, EthosUOptions(extra_flags=["--no-such-flag"]))


def test_an_operator_for_a_cpu_is_an_error(monkeypatch, tosa):
    # The report of the module cannot be written, so the process changes its own result.
    change = (
        "from edgecore_ethosu.vela import regor_process as process; compile = process.compile_graph; "
        "process.compile_graph = lambda *args: {**compile(*args), 'cpu_operators': 2}"
    )
    monkeypatch.setattr(vela, "REGOR", regor_that(change))
    with pytest.raises(CompileError, match="Vela cannot compile 2 operators of the TOSA graph for ethos-u55-128"):
        compile_tosa(tosa, EthosUOptions())


def missing(name: str) -> str:
    raise PackageNotFoundError(name)


@pytest.mark.parametrize(
    ("version", "sentence"),
    [(missing, "Vela, the compiler for Ethos-U, is not installed"), (lambda name: "4.5.0", "Vela 4.5.0 is installed")],
)
def test_a_missing_or_old_vela_is_one_sentence_with_a_command(monkeypatch, tosa, version, sentence):
    monkeypatch.setattr(vela, "version", version)
    with pytest.raises(CompileError, match=sentence) as caught:
        compile_tosa(tosa, EthosUOptions())
    assert str(caught.value).endswith('pip install "ethos-u-vela>=5.2,<6"')
    (problem,) = EthosUCompiler().check()
    assert sentence in problem.what and problem.remedy == vela.INSTALL


def test_a_vela_without_its_configuration_files_is_an_error(monkeypatch, tosa):
    monkeypatch.setattr(vela, "config_path", lambda name: None)
    with pytest.raises(CompileError, match="Vela's folder of configuration files is missing: pip install"):
        compile_tosa(tosa, EthosUOptions())


@pytest.mark.parametrize("by_module", [True, False])
def test_the_cycles_of_the_operators_are_those_of_the_delegate(monkeypatch, tosa, by_module):
    if not by_module:
        monkeypatch.setattr(vela, "_compile_by_module", lambda *args: None)
    report = compile_tosa(tosa, EthosUOptions()).report
    assert report.operators
    assert sum(one.cycles for one in report.operators.values()) == report.total_cycles


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_the_blob_is_the_one_that_executorch_writes(tosa, target):
    arm_vela = pytest.importorskip("executorch.backends.arm.arm_vela")
    options = EthosUOptions(target=target)
    flags = [
        f"--accelerator-config={target}",
        "--config=Arm/vela.ini",
        "--output-format=raw",
        f"--system-config={options.system}",
        f"--memory-mode={options.mode}",
    ]
    expected = arm_vela.vela_compile(tosa, flags).processed_bytes
    assert write_blob(compile_tosa(tosa, options).program) == expected
