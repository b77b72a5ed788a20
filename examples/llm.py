"""Export a language model from a checkpoint, and chat with it: python examples/llm.py FOLDER_OR_NAME [QUESTION].

The first run exports the checkpoint to a folder with its name in `build/llm`; later runs load the model from there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import edgecore_llm
from edgecore_llm.sampler import Sampling

if len(sys.argv) < 2:
    sys.exit("usage: python examples/llm.py FOLDER_OR_NAME [QUESTION]")
folder = Path("build/llm", Path(sys.argv[1]).name)
question = sys.argv[2] if len(sys.argv) > 2 else "What is an edge device?"
if (folder / "model.pte").exists():
    model = edgecore_llm.from_pretrained(folder)
else:
    model = edgecore_llm.from_pretrained(sys.argv[1])  # 4 bits, by default
    model.save_pretrained(folder)

for piece in model.stream("The capital of France is", max_new_tokens=20):
    print(piece, end="", flush=True)
print()
if model.tokenizer.chat_template or model.model.metadata.chat_template:
    print(model.chat([{"role": "user", "content": question}], 100, Sampling(temperature=0.7, top_p=0.95, seed=1)))
