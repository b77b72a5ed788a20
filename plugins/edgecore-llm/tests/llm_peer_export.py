"""Small Llamas in files of executorch's exporter, and executorch's runtime and runner."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

VOCABULARY, CONTEXT = 96, 64
PARAMS = {
    "dim": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab_size": VOCABULARY, "multiple_of": 32,
    "norm_eps": 1e-5, "rope_theta": 10000.0,
}  # fmt: skip
PACKED = {
    "quantization.qmode": "8da4w", "quantization.group_size": 32, "quantization.embedding_quantize": "8,0",
    "backend.xnnpack.enabled": True,
}  # fmt: skip


def need_peer() -> Any:
    """Return the module with executorch's runtime, with all operators registered; skip the tests without it."""
    if find_spec("executorch") is None:
        pytest.skip("needs executorch, the peer", allow_module_level=True)
    import executorch.extension.llm.custom_ops.custom_ops
    import executorch.kernels.quantized  # noqa: F401
    from executorch.extension.pybindings import portable_lib

    return portable_lib


def peer_file(folder: Path, settings: dict[str, Any] | None = None) -> Path:
    """Export a Llama with random weights by executorch's exporter of language models.

    It runs in a process of its own, since it changes what is logged.

    Args:
        folder: An empty folder for its files.
        settings: Values of its `LlmConfig` by their names, such as `PACKED`.
    """
    command = [sys.executable, "-W", "ignore", __file__, str(folder), json.dumps(settings or {})]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "peer.pte"


def peer_answer(file: Path, tokenizer: Path, prompt: str, count: int) -> str:
    """Return the text of `count` tokens that executorch's runner gives, greedy, in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", _ANSWER, str(file), str(tokenizer), prompt, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    answer: str = json.loads(done.stdout.splitlines()[-1])
    return answer


_ANSWER = """
import json, sys
import executorch.extension.llm.custom_ops.custom_ops, executorch.kernels.quantized
from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner
pieces = []
config = GenerationConfig(echo=False, max_new_tokens=int(sys.argv[4]), temperature=0.0)
TextLLMRunner(sys.argv[1], sys.argv[2]).generate(sys.argv[3], config, pieces.append)
print("", json.dumps("".join(pieces)), sep="\\n")
"""


def _export(folder: Path, settings: dict[str, Any]) -> None:
    from executorch.examples.models.llama.export_llama_lib import export_llama
    from executorch.examples.models.llama.llama_transformer import construct_transformer
    from executorch.examples.models.llama.model_args import ModelArgs
    from executorch.extension.llm.export.config.llm_config import LlmConfig

    model = construct_transformer(ModelArgs(**PARAMS, max_seq_len=CONTEXT, max_context_len=CONTEXT))
    generator = torch.Generator().manual_seed(0)
    weights = {
        name: torch.randn(value.shape, generator=generator) * 0.1 if value.ndim > 1 else value
        for name, value in model.state_dict().items()
        if value.is_floating_point()
    }
    torch.save(weights, folder / "model.pth")
    (folder / "params.json").write_text(json.dumps(PARAMS))
    config = LlmConfig()
    values: dict[str, Any] = {
        "base.checkpoint": str(folder / "model.pth"),
        "base.params": str(folder / "params.json"),
        "base.metadata": json.dumps({"get_bos_id": 1, "get_eos_ids": [2, 3]}),
        "model.use_kv_cache": True,
        "model.use_sdpa_with_kv_cache": True,
        "export.max_seq_length": CONTEXT,
        "export.max_context_length": CONTEXT,
        "export.output_name": str(folder / "peer.pte"),
    }
    for name, value in {**values, **settings}.items():
        section, key = name.rsplit(".", 1)
        owner = config
        for part in section.split("."):
            owner = getattr(owner, part)
        setattr(owner, key, value)
    export_llama(config)


if __name__ == "__main__":
    _export(Path(sys.argv[1]), json.loads(sys.argv[2]))
