"""Models that the command line names by a library."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from command_line import one_sentence
from zoo import torchvision_models

from edgecore.cli.models import load_model, stem


def test_a_network_of_torchvision_is_made_with_the_size_of_its_images(capsys):
    pytest.importorskip("PIL")
    try:
        torchvision_models()
    except ImportError:
        pytest.skip("torchvision is not installed")
    for name, size in (("squeezenet1_1", 224), ("lraspp_mobilenet_v3_large", 520)):
        model, (image,), shapes = load_model(f"torchvision:{name}")
        assert list(image.shape) == [1, 3, size, size] and shapes is None and not model.training
        assert f"torchvision:{name} has random weights" in capsys.readouterr().err
    assert torch.equal(load_model("torchvision:squeezenet1_1")[1][0], load_model("torchvision:squeezenet1_1")[1][0])


def test_names_that_torchvision_lacks_and_networks_of_videos_are_one_sentence(edgecore):
    pytest.importorskip("PIL")
    try:
        torchvision_models()
    except ImportError:
        pytest.skip("torchvision is not installed")
    one_sentence(edgecore("compile", "torchvision:mobilenet_v9"), "torchvision cannot make 'mobilenet_v9'", "Unknown")
    one_sentence(edgecore("compile", "torchvision:r3d_18"), "torchvision:r3d_18 takes no single image")


def test_a_network_of_transformers_is_made_from_a_folder_or_an_architecture(tmp_path, capsys):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=50, **sizes)
    config.save_pretrained(tmp_path / "random")
    model, (tokens,), _ = load_model(f"transformers:{tmp_path / 'random'}")
    assert tokens.shape == (1, 16) and tokens.max() < 50 and "random weights" in capsys.readouterr().err
    transformers.BertModel(config).save_pretrained(tmp_path / "trained")
    model, (tokens,), _ = load_model(f"transformers:{tmp_path / 'trained'}")
    assert "random weights" not in capsys.readouterr().err and len(list(model(tokens)[0].shape)) == 3
    program = torch.export.export(model, (tokens,))
    assert program.graph_signature.user_inputs
    (tmp_path / "trained" / "model.safetensors").unlink()
    torch.save(transformers.BertModel(config).state_dict(), tmp_path / "trained" / "pytorch_model.bin")
    load_model(f"transformers:{tmp_path / 'trained'}")
    assert "random weights" not in capsys.readouterr().err


def test_names_that_transformers_lacks_are_one_sentence(edgecore, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    for name in ("bertt", "google-bert/bert-base-nowhere", "a/b/c"):
        one_sentence(
            edgecore("compile", f"transformers:{name}"), f"transformers:{name} is no architecture", "downloaded"
        )


def test_an_architecture_may_have_the_name_of_a_folder_without_a_model(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "distilbert").mkdir()
    assert type(load_model("transformers:distilbert")[0]).__name__ == "DistilBertModel"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("my.models:net", "net"),
        ("folder/net.v2.pt2", "net.v2"),
        ("timm:resnet18.a1_in1k", "resnet18.a1_in1k"),
        ("transformers:google-bert/bert-base", "bert-base"),
    ],
)
def test_files_have_the_last_part_of_the_name_of_a_model(model, name):
    assert stem(model) == name


def test_code_of_a_folder_is_not_run_and_nobody_is_asked(tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    transformers.BertConfig(vocab_size=50, **sizes).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "mine.MyConfig", "AutoModel": "mine.MyModel"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "mine.py").write_text("raise SystemExit('this code ran')")
    monkeypatch.setattr("builtins.input", lambda *text: pytest.fail(f"asked: {text}"))
    assert type(load_model(f"transformers:{tmp_path}")[0]).__name__ == "BertModel"


def test_a_network_of_timm_is_made_with_the_size_of_its_images(monkeypatch, capsys):
    constants = pytest.importorskip("huggingface_hub").constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    timm = ModuleType("timm")

    def create_model(name, pretrained):
        assert constants.HF_HUB_OFFLINE, "a name such as hf-hub:owner/name is downloaded"
        model = torch.nn.Conv2d(3, 4, 3)
        model.pretrained_cfg = {"hf_hub_id": None, "input_size": (3, 32, 48)}
        return model

    timm.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", timm)
    model, (image,), _ = load_model("timm:resnet18")
    assert image.shape == (1, 3, 32, 48) and isinstance(model, torch.nn.Conv2d)
    assert "timm:resnet18 has random weights" in capsys.readouterr().err and not constants.HF_HUB_OFFLINE


def test_a_library_that_is_not_installed_is_named(edgecore, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    one_sentence(edgecore("compile", "timm:resnet18"), "timm:resnet18 needs the package timm", "pip install timm")


def test_tables_of_all_commands_are_json_too(edgecore, relu, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    valid = json.loads(edgecore("verify", relu, "--json").out)
    assert valid == {"file": str(relu), "rules": "the rules of executorch-1.5", "violations": []}
    assert json.loads(edgecore("extract", relu, "--into", "parts", "--json").out)["folder"] == "parts"
    assert edgecore("budget", relu, "--expect", "e.toml", "--write").status == 0
    assert json.loads(edgecore("budget", relu, "--expect", "e.toml", "--json").out)["within"]
    entry = json.loads(edgecore("track", relu, "--history", "h.jsonl", "--runs", "0", "--json").out)
    assert entry["entry"]["file"] and entry["regressions"] == {}
    found = SimpleNamespace(**json.loads(edgecore("doctor", "--json").out))
    assert isinstance(found.backends, list) and isinstance(found.kernels, list)
