"""Options: defaults by target, what each target allows, flags of Vela."""

from __future__ import annotations

import pytest
from ethosu_models import SUB_INPUTS, Sub

import edgecore
from edgecore_ethosu.executorch import EthosUCompileSpec
from edgecore_ethosu.options import EthosUOptions
from edgecore_ethosu.vela.targets import TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_the_defaults_of_each_target_are_the_documented_ones(target):
    expected = {
        "u55": ("Ethos_U55_High_End_Embedded", "Shared_Sram"),
        "u65": ("Ethos_U65_High_End", "Dedicated_Sram_384KB"),
        "u85": ("Ethos_U85_SYS_DRAM_Mid", "Sram_Only"),
    }
    options = EthosUCompileSpec(target).options
    assert (options.system, options.mode) == expected[target[6:9]]


def test_a_target_may_be_written_in_capitals():
    assert EthosUCompileSpec("Ethos-U85-256").options.target == "ethos-u85-256"


def test_compile_specs_keep_the_options():
    options = EthosUOptions(
        target="ethos-u65-512", memory_mode="Shared_Sram", extra_flags=["--optimise Size"], include_tosa=False
    )
    assert EthosUOptions.from_specs(options.to_specs()) == options
    assert options.to_specs()[0].value == b"ethos-u65-512"  # as in files of ExecuTorch


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"target": "ethos-u55-100"}, "'ethos-u55-100' is no target: there are ethos-u55-32, .*ethos-u85-2048"),
        (
            {"target": "ethos-u55-128", "memory_mode": "Dedicated_Sram"},
            "not possible, since the Ethos-U55 has no dedicated SRAM: choose Sram_Only, Shared_Sram$",
        ),
        (
            {"target": "ethos-u65-256", "system_config": "Ethos_U65_Embedded", "memory_mode": "Dedicated_Sram"},
            "the arena would be in OffChipFlash, which cannot be written, with Ethos_U65_Embedded: choose Sram_Only",
        ),
        (
            {"target": "ethos-u85-256", "memory_mode": "Fast"},
            "'Fast' does not exist: ethos-u85-256 has Sram_Only, Shared_Sram, Dedicated_Sram,",
        ),
        (
            {"target": "ethos-u85-256", "system_config": "Ethos_U55_Deep_Embedded"},
            "'Ethos_U55_Deep_Embedded' is none for ethos-u85-256: .*vela.ini has Ethos_U85_SYS_Flash_Low, .*_DRAM_High$",
        ),
        ({"config_ini": "/no/such.ini"}, "config_ini: /no/such.ini cannot be read"),
        ({"extra_flags": ["--optimise=Fast"]}, "--optimise: invalid choice: 'Fast'"),
        ({"extra_flags": ["--output-format=tflite"]}, "--output-format: invalid choice: 'tflite'"),
        ({"extra_flags": ["--memory-mode=Sram_Only"]}, "the option memory_mode of the backend sets --memory-mode"),
        ({"extra_flags": ["--separate-io-regions"]}, "a delegate has its arguments in one region"),
        ({"extra_flags": ["--arena-cache-size=-1"]}, "-1 bytes; it must be 0 or more"),
        ({"extra_flags": ["--cpu-tensor-alignment=24"]}, "is 24; it must be a power of 2 from 16"),
    ],
)
def test_an_impossible_choice_is_one_error_that_lists_what_there_is(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        EthosUCompileSpec(**{"target": "ethos-u55-128", **arguments})


def test_an_impossible_choice_stops_the_compilation():
    backend = edgecore.Backend("ethosu", target="ethos-u55-256", memory_mode="Dedicated_Sram")
    sentence = "options of backend 'ethosu': memory_mode 'Dedicated_Sram' .* the Ethos-U55 has no dedicated SRAM"
    with pytest.raises(edgecore.errors.CompileError, match=sentence):
        edgecore.compile(Sub().eval(), SUB_INPUTS, backends=[backend])


INI = """
[System_Config.Board]
core_clock=250e6
axi0_port=Sram
axi1_port=OffChipFlash
[Memory_Mode.Base]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
[Memory_Mode.Small]
inherit=Memory_Mode.Base
arena_cache_size=65536
"""


def test_a_configuration_file_of_the_user_is_read(tmp_path):
    path = tmp_path / "board.ini"
    path.write_text(INI)
    spec = EthosUCompileSpec("ethos-u55-128", "Board", "Small", config_ini=str(path))
    assert spec.options.system == "Board"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("inherit=Memory_Mode.Base", "inherit=Memory_Mode.None", r"no section \[Memory_Mode.None\]"),
        ("inherit=Memory_Mode.Base", "inherit=Memory_Mode.Small", "more than 16 sections that inherit from each other"),
        ("cache_mem_area=Axi0", "cache_mem_area=Axi2", "has cache_mem_area=Axi2 instead of Axi0 or Axi1"),
        ("axi0_port=Sram", "axi0_port=Dram", "the cache would be in Dram instead of Sram with Board: choose none"),
    ],
)
def test_a_configuration_file_that_cannot_be_is_refused(tmp_path, old, new, sentence):
    path = tmp_path / "board.ini"
    path.write_text(INI.replace(old, new))
    with pytest.raises(ValueError, match=sentence):
        EthosUCompileSpec("ethos-u55-128", "Board", "Small", config_ini=str(path))
