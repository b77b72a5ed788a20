"""`LlmConfig`: files, settings, the rules between keys, and errors that help."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from llm_peer_config import plain

from edgecore_llm.config.llm_config import LlmConfig, load_config
from edgecore_llm.errors import ConfigError


def test_a_file_and_settings_are_read_in_order(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "base": {"model_class": "qwen3_0_6b", "metadata": '{"get_bos_id": 1}'},
                "model": {"use_kv_cache": True, "use_attention_sink": "4,124"},
                "export": None,
                "quantization": {"qmode": "8da4w", "group_size": 32, "embedding_quantize": "4,32"},
            }
        )
    )
    settings = ["+export.max_seq_length=256", "export.max_context_length=1024", "+quantization.group_size=64"]
    config = load_config(path, [*settings, "+backend.xnnpack.enabled=True", '+base.metadata={"get_bos_id": 2}'])
    assert (config.base.model_class, config.base.metadata) == ("qwen3_0_6b", '{"get_bos_id": 2}')
    assert (config.export.max_seq_length, config.export.max_context_length) == (256, 1024)
    assert (config.quantization.group_size, config.quantization.embedding_quantize) == (64, "4,32")
    assert config.backend.enabled == ["xnnpack"]
    assert load_config() == LlmConfig()


def test_a_written_configuration_is_read_as_it_was(tmp_path):
    config = load_config(None, ["+model.local_global_attention=[512, 0]", "+base.lora_config.adapter_checkpoint=a.pt"])
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config.model_dump()))
    assert load_config(path) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["+model.use_kv_cach=true"], "model.use_kv_cach does not exist; did you mean model.use_kv_cache?"),
        (["+export.use_kv_cache=true"], "export.use_kv_cache does not exist; did you mean model.use_kv_cache?"),
        (["+modle.use_kv_cache=true"], "modle does not exist; did you mean model?"),
        (["+model.zzz=1"], "model.zzz does not exist"),
        (
            ["+model.dtype_override=fp8"],
            "model.dtype_override: input should be 'fp32', 'fp16' or 'bf16', but it is 'fp8'",
        ),
        (["+export.max_seq_length=0"], "export.max_seq_length: input should be greater than 0, but it is 0"),
        (["+export.max_seq_length=200"], "export: max_context_length 128 is below max_seq_length 200"),
        (["+base.metadata=nonsense"], "base.metadata: this is no JSON text: "),
        (["+model.use_attention_sink=4"], "model.use_attention_sink: this is no pair of whole numbers"),
        (["+model.quantize_kv_cache=true"], "model: a quantized cache needs use_kv_cache"),
        (
            ["+model.use_kv_cache=true", "+model.static_quantize_kv_cache=true"],
            "model: static_quantize_kv_cache and enable_dynamic_shape exclude each other",
        ),
        (["+quantization.qmode=5w"], "quantization.qmode: this is none of int8, 8da4w, "),
        (["+quantization.embedding_quantize='3,32'"], "quantization.embedding_quantize: this is none of "),
        (["+backend.qnn.enabled=true"], "backend.qnn needs model.enable_dynamic_shape=false"),
        (
            ["+multimethod.methods=[{method_name: a}]", "+backend.vulkan.enabled=true"],
            "backend.vulkan exclude each other",
        ),
        (["max_seq_length=3"], "'max_seq_length=3' has not the form +section.key=value"),
        (["+export.max_seq_length.a=3"], "export.max_seq_length: input should be a valid integer"),
        (["+export.max_seq_length=2", "+export.max_seq_length.a=3"], "max_seq_length is no section"),
        (["+export.output_name=[1"], "the value of export.output_name is not YAML"),
    ],
)
def test_an_error_names_the_key_and_says_what_fits(settings, message):
    with pytest.raises(ConfigError) as caught:
        load_config(None, settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_configuration_is_an_error(tmp_path):
    path = tmp_path / "config.yaml"
    for content, message in (("- 1", "has no sections: its content is a list"), ("a: [", "is no YAML file")):
        path.write_text(content)
        with pytest.raises(ConfigError, match=message):
            load_config(path)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_config(tmp_path / "none.yaml")


def test_keys_and_defaults_are_those_of_executorch():
    theirs = pytest.importorskip("executorch.extension.llm.export.config.llm_config")
    expected, ours = plain(theirs.LlmConfig()), LlmConfig().model_dump()
    ours["backend"].pop("mps")  # in the documentation only
    assert ours == expected


def test_choices_are_those_of_executorch():
    theirs = pytest.importorskip("executorch.extension.llm.export.config.llm_config")
    for key, choices in (
        ("base.model_class", theirs.ModelType), ("base.preq_mode", theirs.PreqMode),
        ("quantization.pt2e_quantize", theirs.Pt2eQuantize), ("quantization.use_spin_quant", theirs.SpinQuant),
        ("quantization.quantize_scope", theirs.QuantizeScope), ("backend.coreml.quantize", theirs.CoreMLQuantize),
        ("backend.coreml.compute_units", theirs.CoreMLComputeUnit), ("model.dtype_override", theirs.DtypeOverride),
    ):  # fmt: skip
        for choice in choices:
            load_config(None, [f"+{key}={choice.value}"])


def test_the_example_files_of_executorch_are_read():
    models = pytest.importorskip("executorch.examples.models")
    files = [file for folder in models.__path__ for file in Path(folder).glob("*/config/*.yaml")]
    assert len(files) > 8
    for file in files:
        if "metadata=" in file.read_text():  # two files of 1.5.1 have an equals sign for a colon
            with pytest.raises(ConfigError, match=r"base( is a section with keys, but it is '|\.)metadata="):
                load_config(file)
            continue
        config = load_config(file)
        assert config.base.preq_mode in (None, "8da4w_output_8da8w")
