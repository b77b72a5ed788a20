"""Settings of `LlmConfig` as options of an export: each acts or is refused."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path

import pytest
from llm_commands import call
from llm_models import random_model
from llm_tokenizers import byte_level

import edgecore
from edgecore_llm.checkpoints.hub import model_path
from edgecore_llm.cli.export import default_output
from edgecore_llm.config.flags import config_from_flags
from edgecore_llm.config.llm_config import LlmConfig, _keys, load_config
from edgecore_llm.config.plan import ACTING, REFUSED, plan
from edgecore_llm.errors import CheckpointError, ConfigError
from edgecore_llm.model.layers import Precision
from edgecore_llm.runner.session import METADATA_METHOD

pytest.importorskip("transformers")


def test_each_setting_acts_or_is_refused():
    sections = {key.rpartition(".")[0] for key in _keys(LlmConfig)}
    for key in _keys(LlmConfig):
        if key not in sections:
            refused = any(key == name or key.startswith(f"{name}.") for name in REFUSED)
            assert refused or key in ACTING, key
    assert set(ACTING) <= {*_keys(LlmConfig)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["+model.dtype_override=bf16"],
            "model.dtype_override=bf16 is not supported: values are computed in float32; ",
        ),
        (
            ["+model.use_kv_cache=true", "+model.enable_dynamic_shape=false", "+model.static_quantize_kv_cache=true"],
            "is not supported: ",
        ),
        (["+model.use_attention_sink=4,0"], "model.use_attention_sink=4,0 has a window of no positions"),
        (
            ["+model.use_attention_sink=4,60", "+model.local_global_attention=[16,0]"],
            "model.use_attention_sink and model.local_global_attention exclude each other",
        ),
        (
            ["+quantization.use_qat=true"],
            "quantization.use_qat needs base.preq_mode: it describes a checkpoint that is",
        ),
        (["+base.preq_mode=8da4w"], "needs either quantization.use_spin_quant or quantization.use_qat"),
        (
            ["+base.preq_mode=8da4w", "+quantization.use_spin_quant=native", "+base.use_lora=16"],
            "base.use_lora and quantization.use_spin_quant exclude each other",
        ),
        (
            ["+base.preq_mode=8da4w", "+quantization.use_qat=true", "+quantization.qmode=8da4w"],
            "quantization.qmode and base.preq_mode exclude each other: the checkpoint has its bits",
        ),
        (
            ["+base.preq_mode=8da4w", "+quantization.use_qat=true", "+base.preq_embedding_quantize=4,32"],
            "base.preq_embedding_quantize=4,32 is not supported: tables have 8 bits; use 8,0",
        ),
        (["+quantization.qmode=int8"], "quantization.qmode=int8 is not supported: "),
        (["+quantization.qmode=8da4w-gptq"], "; use 8da4w"),
        (["+quantization.qmode=torchao:8da3w"], "weights have 4 or 8 bits"),
        (["+quantization.embedding_quantize=2,32"], "weights have 4 or 8 bits"),
        (["+quantization.group_size=32"], "has no effect without quantization.qmode"),
        (["+quantization.use_hqq=false"], "quantization.use_hqq=False is not supported: scales are always fitted"),
        (["+base.lora_config.adapter_checkpoint=a"], " is not supported: adapters are not supported yet; merge"),
        (["+base.params=a"], "base.params has no effect without base.checkpoint"),
        (["+base.model_class=lfm2_350m"], "base.model_class=lfm2_350m is not supported; these are: stories110m, "),
        (["+base.metadata={a b: 1}"], "base.metadata: a b is no name of a method"),
        (["+base.metadata={get_eos_ids: [x]}"], "get_eos_ids holds something else than ids"),
        (["+multimethod.methods=[{method_name: a}]"], "is not supported: a file has one method"),
        (["+backend.xnnpack.extended_ops=true"], "has no effect without backend.xnnpack.enabled=true"),
        (["+backend.openvino.device=GPU"], "backend.openvino.device=GPU is not supported: options of backends"),
        (
            ["+backend.openvino.nncf_compression_group_size=64"],
            "nncf_compression_group_size=64 is not supported: options",
        ),
        (["+backend.vgf.enabled=true"], "backend.vgf.enabled=True is not supported: "),
    ],
)
def test_a_setting_that_is_not_supported_says_why_and_what_to_do(settings, message):
    with pytest.raises(ConfigError) as caught:
        plan(load_config(None, settings))
    shown = str(caught.value)
    assert message in shown
    assert "\n" not in shown


def test_flags_and_settings_become_options():
    found = plan(
        config_from_flags("-X --xnnpack-extended-ops -kv -qmode 8da4w -G 64 -E 4,32 --max_seq_length 16 -n x".split())
    )
    assert found.options.precision == Precision(4, 4, 4, 64, 32)
    assert (found.options.backends, found.options.chunk, found.output) == (["xnnpack"], 16, Path("x.pte"))
    assert plan(LlmConfig()).options.precision == Precision()
    found = plan(load_config(None, ["+base.model_class=qwen3_0_6b", "+quantization.qmode=torchao:8da8w"]))
    assert (found.repository, found.family, found.options.precision.linear) == ("Qwen/Qwen3-0.6B", "qwen3", 8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A cache of huggingface_hub with a model."""
    cache = tmp_path_factory.mktemp("hub")
    revision = "0" * 40
    (cache / "models--org--small" / "refs").mkdir(parents=True)
    (cache / "models--org--small" / "refs" / "main").write_text(revision)
    folder = cache / "models--org--small" / "snapshots" / revision
    random_model("llama3").save_pretrained(folder)
    return cache


def test_settings_act_in_the_file(folder, tmp_path):
    model = next(folder.glob("*/snapshots/*"))
    byte_level(tmp_path / "tokenizer.json")
    config = tmp_path / "config.yaml"
    config.write_text(
        "model: {use_kv_cache: true, use_sdpa_with_kv_cache: true, use_shared_embedding: true, "
        "local_global_attention: [16, 0]}\n"
        "quantization: {qmode: 8da4w, embedding_quantize: '8,0'}\nbackend: {xnnpack: {enabled: true}}\n"
        'base: {metadata: \'{"get_eos_ids": [5, 7], "get_bos_id": 1, "extra": "text"}\'}\n'
        f"export: {{output_dir: {tmp_path}, output_name: settings}}\n"
    )
    shown = call("export", model, "--config", config, "+export.max_seq_length=32", "+debug.verbose=true")
    assert "settings.pte" in shown
    assert "llama, 3 layers, ExportOptions(context=128, chunk=32" in shown
    program = edgecore.load(tmp_path / "settings.pte")
    facts = json.loads(str(program[METADATA_METHOD]()))
    assert (facts["context"], facts["chunk"], facts["eos_ids"]) == (128, 32, [5, 7])
    assert facts["precision"] == {
        "linear": 4,
        "embedding": 8,
        "output": 4,
        "group": 32,
        "embedding_group": 0,
        "cache": 32,
    }
    assert facts["rewindable"] is not None  # of the layers with a window
    assert (program["extra"](), program["get_bos_id"]()) == ("text", 1)
    assert len(list(call("bench", tmp_path / "settings.pte", "-p", 40, "-n", 3, "-r", 1).splitlines())) == 4


def test_the_older_flags_export_a_checkpoint(folder, tmp_path):
    model = next(folder.glob("*/snapshots/*"))
    call("export-llama", "-c", model, "-kv", "-qmode", "8da4w", "-E", "8,32", "-n", "old.pte", "-o", tmp_path)
    assert (tmp_path / "old.pte").exists()
    with pytest.raises(ConfigError, match="there is no flag --use_kv_cach; did you mean --use_kv_cache"):
        call("export-llama", "--use_kv_cach")


def test_what_settings_and_the_model_contradict_is_said(folder, tmp_path):
    model = next(folder.glob("*/snapshots/*"))
    for setting, message in (
        ("+base.model_class=phi_4_mini", "base.model_class asks for the family phi3, and .* is of llama"),
        ("+base.metadata={get_vocab_size: 3}", "the constant get_vocab_size follows from the model"),
        (f"+base.checkpoint={model}", "MODEL and base.checkpoint exclude each other"),
        ("+export.output_name=x.pte", "--output and export.output_name or export.output_dir exclude each other"),
    ):
        with pytest.raises(ConfigError, match=message):
            call("export", model, setting, "-o", tmp_path / "x.pte")
    byte_level(tmp_path / "tokenizer.json")
    with pytest.raises(ConfigError, match="base.tokenizer_path: the tokenizer has 402 tokens and the model only 211"):
        call("export", model, f"+base.tokenizer_path={tmp_path}", "-o", tmp_path / "x.pte")
    with pytest.raises(ConfigError, match="no model is named: give MODEL, or base.checkpoint with base.params"):
        call("export", "+debug.verbose=true", "-o", tmp_path / "x.pte")


@pytest.mark.parametrize("shards", [0, 2])
def test_what_the_cache_lacks_is_downloaded(shards, tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    names = [f"model-{number}.safetensors" for number in range(shards)]
    files = [*names, *(["model.safetensors.index.json"] if shards else ["model.safetensors"])]
    asked = []

    def snapshot_download(name, allow_patterns, local_files_only):
        asked.append(local_files_only)
        assert any(fnmatch(name, pattern) for name in files for pattern in allow_patterns)
        assert not any(fnmatch("consolidated.safetensors", pattern) for pattern in allow_patterns)
        for file in [] if local_files_only else files:
            (tmp_path / file).write_text(json.dumps({"weight_map": dict(enumerate(names))}))
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", snapshot_download)
    (tmp_path / "config.json").write_text("{}")
    assert model_path("org/small") == tmp_path
    assert asked == [True, False]
    assert model_path("org/small") == tmp_path
    assert asked == [True, False, True]
    (tmp_path / files[0]).unlink()
    assert model_path("org/small") == tmp_path
    assert asked[3:] == [True, False]


@pytest.mark.parametrize(
    ("model", "file"),
    [
        ("Llama-3.2-1B", "Llama-3.2-1B.pte"), ("org/Qwen2.5-0.5B", "Qwen2.5-0.5B.pte"), ("a/b.v1.gguf", "b.v1.pte"),
        ("consolidated.00.pth", "consolidated.00.pte"),
    ],
)  # fmt: skip
def test_the_file_is_named_after_the_model(model, file):
    assert default_output(model) == Path(file)


def test_a_name_is_looked_up_in_the_cache(folder, tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    assert model_path("org/small") == model_path("hf:org/small") == next(folder.glob("*/snapshots/*"))
    (tmp_path / "org" / "small").mkdir(parents=True)
    assert model_path("org/small") == Path("org/small")
    assert model_path("hf:org/small") != Path("org/small")
    with pytest.raises(
        CheckpointError, match="neither in the cache of huggingface_hub nor can it be downloaded"
    ) as caught:
        model_path("org/other")
    assert "\n" not in str(caught.value)
    for path in ("a/b/c", "model.gguf", "no such"):
        with pytest.raises(CheckpointError, match=f"there is no checkpoint {path}$"):
            model_path(path)
