"""Make the files that `run.py` measures: checkpoints, and the files of edgecore and its peers, and install the peers.

    python benchmarks/llm/prepare.py [SHAPE ...] [--folder build/llm-peers] [--peers llama.cpp executorch onnx openvino]

All linear layers and the output layer get weights of 4 bits in groups of 32. Each peer has its own environment, except
executorch 1.5.1: this script uses executorch and edgecore-llm of the Python that runs it, in which
`pip install "edgecore-llm[compile]" executorch==1.5.1 gguf` has been run. Existing files are kept.

GGUF and Meta's checkpoints have the rows of query and key weights in another order, for rotary embeddings. This script
does not reorder them, because the weights are random and the order has no effect on the speed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from shapes import CONTEXT, SHAPES, Shape, make_checkpoint

FOLDER = Path("build/llm-peers")
TORCH = f"torch=={torch.__version__}"
PACKAGES = {
    "llama.cpp": ["llama-cpp-python==0.3.36"],
    "onnx": ["onnxruntime-genai==0.18.0", "onnx", "onnx_ir", "transformers", TORCH],
    "openvino": ["openvino-genai==2026.4.1.0", "optimum-intel", "nncf", TORCH],
}
PEERS = ("llama.cpp", "executorch", "onnx", "openvino")
# fmt: off
META = {
    "model.embed_tokens": "tok_embeddings", "model.norm": "norm", "self_attn.q_proj": "attention.wq",
    "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv", "self_attn.o_proj": "attention.wo",
    "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3",
    "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "model.layers": "layers",
}
# fmt: on
"""Part of a tensor's name in Hugging Face's checkpoints -> the same part in Meta's checkpoints."""


def python_of(folder: Path, peer: str) -> Path:
    """Return the Python of a peer's environment, which is made if it does not exist."""
    if peer not in PACKAGES:
        return Path(sys.executable)
    environment = (folder / "envs" / peer).absolute()
    python = environment / "bin" / "python"
    if not (environment / "done").exists():
        venv.create(environment, with_pip=True)
        # llama.cpp is built from source, for the instructions of this processor.
        settings = os.environ | {"CMAKE_ARGS": "-DGGML_NATIVE=ON"}
        subprocess.run([python, "-m", "pip", "install", *PACKAGES[peer]], check=True, env=settings)
        # transformers cannot be imported beside a torchvision for another build of torch.
        subprocess.run([python, "-m", "pip", "uninstall", "--yes", "torchvision"], check=True)
        (environment / "done").touch()
    return python


def edgecore_file(python: Path, checkpoint: Path, shape: Shape, target: Path) -> None:
    options = ["--bits", "4", "--embedding-bits", "4", "--context", str(CONTEXT)]
    subprocess.run([python, "-m", "edgecore", "llm", "export", checkpoint, "-o", target, *options], check=True)


def gguf_file(python: Path, checkpoint: Path, shape: Shape, target: Path) -> None:
    import gguf

    writer = gguf.GGUFWriter(target, "llama")
    writer.add_context_length(8192)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(64)
    writer.add_value_length(64)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_tokenizer_model("none")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, shape.layers)
    with safe_open(checkpoint / "model.safetensors", "pt") as tensors:
        for name in tensors.keys():
            values = tensors.get_tensor(name).float().numpy()
            new_name = names.get_name(name, (".weight",))
            kind = gguf.GGMLQuantizationType.Q4_0
            if values.ndim == 1:
                writer.add_tensor(new_name, values)
            else:
                writer.add_tensor(new_name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def executorch_file(python: Path, checkpoint: Path, shape: Shape, target: Path) -> None:
    params = checkpoint / "params.json"
    facts = {
        "dim": shape.width,
        "n_layers": shape.layers,
        "n_heads": shape.heads,
        "n_kv_heads": shape.kv_heads,
        "hidden_dim": shape.inner,
        "vocab_size": shape.vocabulary,
        "norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "head_dim": 64,
    }
    params.write_text(json.dumps(facts))
    state: dict[str, Any] = {}
    with safe_open(checkpoint / "model.safetensors", "pt") as tensors:
        for name in tensors.keys():
            new_name = name
            for part, other in META.items():
                new_name = new_name.replace(part, other)
            state[new_name] = tensors.get_tensor(name)
    state["output.weight"] = state["tok_embeddings.weight"]
    torch.save(state, checkpoint / "consolidated.pth")
    length = str(CONTEXT)
    files = ["-c", checkpoint / "consolidated.pth", "-p", params, "--output_name", target.absolute()]
    weights = "-kv --use_sdpa_with_kv_cache -X -qmode 8da4w -G 32 -d fp32 --embedding-quantize 4,32".split()
    lengths = ["--max_seq_length", length, "--max_context_length", length]
    metadata = ["--metadata", '{"get_bos_id":1,"get_eos_ids":[2]}']
    exporter = [python, "-m", "executorch.examples.models.llama.export_llama"]
    command = [*exporter, *files, *weights, *lengths, *metadata]
    if "extended" in target.name:
        command.append("--xnnpack-extended-ops")
    subprocess.run(command, check=True, cwd=checkpoint)


def onnx_folder(python: Path, checkpoint: Path, shape: Shape, target: Path) -> None:
    files = ["-i", checkpoint, "-o", target, "-c", target.with_suffix(".cache")]
    options = "-p int4 -e cpu --extra_options block_size=32 accuracy_level=4 prune_lm_head=true hf_token=false"
    subprocess.run([python, "-m", "onnxruntime_genai.models.builder", *files, *options.split()], check=True)


def openvino_folder(python: Path, checkpoint: Path, shape: Shape, target: Path) -> None:
    export = [python.parent / "optimum-cli", "export", "openvino", "-m", checkpoint]
    options = "--task text-generation-with-past --weight-format int4 --sym --group-size 32 --ratio 1.0 --all-layers"
    subprocess.run([*export, *options.split(), target], check=True)


FILES = {
    "edgecore": ("edgecore.pte", edgecore_file),
    "llama.cpp": ("q4_0.gguf", gguf_file),
    "executorch": ("executorch.pte", executorch_file),
    "executorch-extended": ("executorch-extended.pte", executorch_file),
    "onnx": ("onnx", onnx_folder),
    "openvino": ("openvino", openvino_folder),
}
"""For each runner, the name of its file or folder and the function that makes it."""


def remove(path: Path) -> None:
    """Delete a file or a folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"default: {', '.join(SHAPES)}")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    arguments = parser.parse_args()
    folder: Path = arguments.folder.absolute()
    failed = []
    for name in arguments.shapes or SHAPES:
        checkpoint = folder / name
        if not (checkpoint / "model.safetensors").exists():
            make_checkpoint(SHAPES[name], checkpoint)
        for runner, (file, make) in FILES.items():
            peer = runner.split("-")[0]
            if (checkpoint / file).exists() or peer not in ("edgecore", *arguments.peers):
                continue
            part = checkpoint / f"part-{file}"  # renamed at the end, so that an incomplete file is not used later
            remove(part)
            try:
                make(python_of(folder, peer), checkpoint, SHAPES[name], part)
                part.rename(checkpoint / file)
            except (subprocess.CalledProcessError, ImportError) as error:
                failed.append(f"{name}, {runner}: {error}")
        (checkpoint / "consolidated.pth").unlink(missing_ok=True)
    if failed:
        sys.exit("not made:\n" + "\n".join(failed))


if __name__ == "__main__":
    main()
