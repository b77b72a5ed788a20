"""Measure one runner once, and print JSON: tokens per second of a prompt and of the tokens after it.

    PYTHON turn.py RUNNER FILE THREADS PROMPT NEW

PYTHON is the Python of the runner's environment. A shorter answer to the same prompt runs first, so that the measured
answer neither allocates memory nor compiles kernels.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

WARM_TOKENS = 4


def measure(
    restart: Callable[[], None], append: Callable[[list[int]], object], prompt: int, new: int
) -> tuple[float, float]:
    """Return the tokens per second of a prompt, and of `new` tokens after the prompt.

    `append` runs the model on tokens and finds the next token; `restart` empties the caches.
    """
    prompt_tokens = [7 + i * 37 % 200 for i in range(prompt)]
    speeds = (0.0, 0.0)
    for count in (WARM_TOKENS, new):
        restart()
        start = time.perf_counter()
        append(prompt_tokens)
        middle = time.perf_counter()
        for i in range(count):
            append([7 + i % 200])
        speeds = (prompt / (middle - start), count / (time.perf_counter() - middle))
    return speeds


def edgecore(file: str, threads: int, prompt: int, new: int) -> tuple[float, float]:
    from edgecore_llm.runner.session import Model

    session = Model(file, threads=threads).new_session()
    return measure(lambda: session.rewind(0), lambda tokens: session.append(tokens).argmax(), prompt, new)


def llama_cpp(file: str, threads: int, prompt: int, new: int) -> tuple[float, float]:
    import ctypes

    import llama_cpp as library
    import numpy as np

    silent = library.llama_log_callback(lambda *_: None)
    library.llama_log_set(silent, ctypes.c_void_p(0))
    library.llama_backend_init()
    model = library.llama_model_load_from_file(file.encode(), library.llama_model_default_params())
    settings = library.llama_context_default_params()
    settings.n_ctx, settings.n_batch, settings.n_ubatch = 1024, 512, 512
    settings.n_threads = settings.n_threads_batch = threads
    context = library.llama_init_from_model(model, settings)
    vocabulary = library.llama_vocab_n_tokens(library.llama_model_get_vocab(model))

    def restart() -> None:
        library.llama_memory_clear(library.llama_get_memory(context), False)

    def append(tokens: list[int]) -> None:
        ids = (ctypes.c_int32 * len(tokens))(*tokens)
        if library.llama_decode(context, library.llama_batch_get_one(ids, len(tokens))) != 0:
            raise RuntimeError("llama_decode failed")
        logits = library.llama_get_logits_ith(context, -1)  # waits for the end of the computation
        np.ctypeslib.as_array(logits, (vocabulary,)).argmax()

    return measure(restart, append, prompt, new)


def executorch(file: str, threads: int, prompt: int, new: int) -> tuple[float, float]:
    from pathlib import Path

    # These two imports register kernels that the file calls.
    import executorch.kernels.quantized  # noqa: F401
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401
    from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner
    from executorch.extension.pybindings.portable_lib import _unsafe_reset_threadpool

    _unsafe_reset_threadpool(threads)
    runner = TextLLMRunner(file, str(Path(file).parent / "tokenizer.json"))
    text = "".join(chr(97 + i * 7 % 26) for i in range(prompt))
    found: list[Any] = []
    for count in (WARM_TOKENS, new + 1):
        runner.reset()
        config = GenerationConfig(echo=False, max_new_tokens=count, temperature=0.0)
        runner.generate(text, config, lambda _: None, found.append)
    facts = found[-1]
    if facts.num_generated_tokens < new or not prompt <= facts.num_prompt_tokens <= prompt + 1:
        raise RuntimeError(f"{facts.num_prompt_tokens} and {facts.num_generated_tokens} tokens")
    prefill = (facts.prompt_eval_end_ms - facts.inference_start_ms) / 1000
    decode = (facts.inference_end_ms - facts.prompt_eval_end_ms) / 1000
    return facts.num_prompt_tokens / prefill, facts.num_generated_tokens / decode


def onnx(folder: str, threads: int, prompt: int, new: int) -> tuple[float, float]:
    import numpy as np
    import onnxruntime_genai as library

    config = library.Config(folder)
    config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
    model = library.Model(config)
    generators: list[Any] = []

    def restart() -> None:
        settings = library.GeneratorParams(model)
        settings.set_search_options(max_length=prompt + new + 8, do_sample=False)
        generators[:] = [library.Generator(model, settings)]

    def append(tokens: list[int]) -> None:
        if len(tokens) > 1:
            generators[0].append_tokens(np.array(tokens, np.int32))
            generators[0].generate_next_token()
        else:
            generators[0].generate_next_token()

    return measure(restart, append, prompt, new)


def openvino(folder: str, threads: int, prompt: int, new: int) -> tuple[float, float]:
    import numpy as np
    import openvino as ov
    import openvino_genai as library

    pipeline = library.LLMPipeline(folder, "CPU", INFERENCE_NUM_THREADS=threads)
    mask = ov.Tensor(np.ones((1, prompt), np.int64))
    speeds = (0.0, 0.0)
    for count in (WARM_TOKENS, new + 1):
        # Use another prompt each time: OpenVINO caches prompts, and would not compute a beginning that it has cached.
        ids = ov.Tensor(np.array([[7 + (count + i * 37) % 200 for i in range(prompt)]], np.int64))
        config = library.GenerationConfig(max_new_tokens=count, ignore_eos=True, do_sample=False)
        metrics = pipeline.generate(library.TokenizedInputs(ids, mask), config).perf_metrics
        speeds = (prompt / metrics.get_ttft().mean * 1000, 1000 / metrics.get_tpot().mean)
    return speeds


RUNNERS = {
    "edgecore": edgecore,
    "llama.cpp": llama_cpp,
    "executorch": executorch,
    "executorch-extended": executorch,
    "onnx": onnx,
    "openvino": openvino,
}


def main() -> None:
    runner, file, threads, prompt, new = sys.argv[1:]
    prefill, decode = RUNNERS[runner](file, int(threads), int(prompt), int(new))
    print(json.dumps({"prefill": prefill, "decode": decode}), flush=True)


if __name__ == "__main__":
    main()
