"""Load a program in one runtime, and time runs on request, for `check.py`, `portable.py` and `runtimes.py`.

    worker.py RUNTIME FILE THREADS      RUNTIME: edgecore, executorch, onnxruntime or openvino
    worker.py eager MODEL THREADS       MODEL: a name of tests/zoo.py

Each line of stdin is a number of runs. The answer on stdout is a line with a JSON list of the seconds of each run.
"""

import json
import sys
import time
from pathlib import Path


def openvino_request(model, threads: int):
    """Compile a model, or a file, with OpenVINO's own runtime in float32. Return a request that runs it."""
    import openvino

    hints = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    return openvino.Core().compile_model(model, "CPU", hints).create_infer_request()


def main() -> None:
    runtime, path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    import torch

    torch.manual_seed(0)
    if runtime == "edgecore":
        import edgecore

        method = edgecore.load(path, threads=threads)["forward"]
        types = [getattr(torch, i.dtype) for i in method.inputs]
        # Integer inputs are indices: abs().to() gives small values, which are valid.
        inputs = [torch.randn(i.shape).abs().to(t) for i, t in zip(method.inputs, types)]

        def run() -> None:
            method(*inputs)
    elif runtime == "eager":
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
        from zoo import make

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        model, inputs = make(path)

        def run() -> None:
            model(*inputs)
    elif runtime == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feeds = {}
        for info in session.get_inputs():
            shape = tuple(info.shape)
            feeds[info.name] = (torch.randint(9, shape) if info.type == "tensor(int64)" else torch.randn(shape)).numpy()

        def run() -> None:
            session.run(None, feeds)
    elif runtime == "openvino":
        import openvino

        request = openvino_request(path, threads)
        tensors = [
            torch.randint(9, tuple(port.shape)) if "int" in str(port.element_type) else torch.randn(tuple(port.shape))
            for port in request.model_inputs
        ]
        for index, tensor in enumerate(tensors):
            request.set_input_tensor(index, openvino.Tensor(tensor.numpy(), shared_memory=True))

        def run() -> None:
            request.infer()
    else:
        from executorch.extension.pybindings import portable_lib
        from executorch.runtime import Runtime

        portable_lib._unsafe_reset_threadpool(threads)
        method = Runtime.get().load_program(path).load_method("forward")
        metas = [method.metadata.input_tensor_meta(i) for i in range(method.metadata.num_inputs())]
        types = [torch.int64 if meta.dtype() == 4 else torch.float32 for meta in metas]  # 4 is ScalarType.LONG
        inputs = [torch.randn(meta.sizes()).abs().to(t) for meta, t in zip(metas, types)]

        def run() -> None:
            method.execute(inputs)

    for _ in range(5):
        run()
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
