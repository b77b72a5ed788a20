"""The flags of executorch's older command."""

from __future__ import annotations

import shlex
from importlib.util import find_spec

import pytest
from llm_peer_config import plain

from edgecore_llm.config.flags import config_from_flags
from edgecore_llm.config.llm_config import LlmConfig
from edgecore_llm.errors import ConfigError

COMMANDS = [
    "",
    "--model llama3_2 -c a.pth -p b.json -kv --use_sdpa_with_kv_cache -X --xnnpack-extended-ops -qmode 8da4w -G 64 "
    "-E 4,32 --max_seq_length 2048 --max_context_length 4096 -d fp32 -n 123.pte",
    "--preq_mode 8da4w_output_8da8w --preq_group_size 32 --preq_embedding_quantize 8,0 -qat -lora 16 -sq native -v",
    "--disable_dynamic_shape --coreml --coreml-ios 18 --coreml-quantize c4w --coreml-compute-units all --coreml-enable-state",
    "--disable_dynamic_shape --qnn --pt2e_quantize qnn_16a4w --num_sharding 4 --soc_model SM8750 --calibration_tasks a b "
    "--calibration_limit 1 --calibration_seq_length 42 --calibration_data text",
    "--use-torchao-kernels --local_global_attention [0,16] --vgf --vgf-quantize-scope linear --mlx -s lib.so -prof x.html",
    "-V --vulkan-force-fp16 --openvino --openvino_device GPU --adapter_checkpoint a --adapter_config b --export_only",
]


def test_flags_are_settings():
    config = config_from_flags(
        ["-m", '{"get_bos_id": 1}', "-n", "12", "-kv", "--max_seq_length", "64", "--group_size=128"]
    )
    assert (config.base.metadata, config.export.output_name) == ('{"get_bos_id": 1}', "12")
    assert (config.model.use_kv_cache, config.export.max_seq_length) == (True, 64)
    assert config.quantization.group_size == config.backend.openvino.nncf_compression_group_size == 128
    assert config_from_flags([]) == LlmConfig()
    config = config_from_flags(["-qmode", "8da4w", "-G", "0"])
    assert (config.quantization.group_size, config.backend.openvino.nncf_compression_group_size) == (0, 32)


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_are_read_as_executorch_reads_them(command):
    if find_spec("zoo") and find_spec("torchvision"):
        import zoo  # beside the tests of the core

        zoo.torchvision_models()  # executorch imports it
    library = pytest.importorskip("executorch.examples.models.llama.export_llama_lib")
    theirs = pytest.importorskip("executorch.extension.llm.export.config.llm_config")
    expected = theirs.LlmConfig.from_args(library.build_args_parser().parse_args(shlex.split(command)))
    ours = config_from_flags(shlex.split(command))
    for section in ("base", "model", "export", "debug", "quantization"):
        assert getattr(ours, section).model_dump() == plain(getattr(expected, section))
    for backend, values in ours.backend.model_dump().items():
        if backend != "mps":
            assert values == plain(getattr(expected.backend, backend))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--use_kv_cach"], "there is no flag --use_kv_cach; did you mean --use_kv_cache?"),
        (["--max_seq_length"], "expected one argument"),
        (["--max_seq_length", "many"], "export.max_seq_length: input should be a valid integer"),
        (["--model", "gpt2"], "base.model_class: input should be 'stories110m', "),
        (["--adapter_checkpoint", "a"], "--adapter_checkpoint needs --adapter_config"),
    ],
)
def test_a_wrong_flag_is_one_clear_sentence(arguments, message):
    with pytest.raises(ConfigError) as caught:
        config_from_flags(arguments)
    assert message in str(caught.value)
