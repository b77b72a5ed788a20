"""Loads and runs randomly damaged blobs, each in a child process; reports children that died by a signal.

    EDGECORE_XNNPACK_BUILD=build python corrupt.py FILE.pte --count 10000 [--seed 0]

Every XNNPACK delegate of the file is used. One to four bytes change: half of the cases in the blob's header and
flatbuffer, some in the named data, some are a truncation.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from native_host import NativeError, Output, Session, build_folder

from edgecore.format import read_pte
from edgecore.format.program import DelegateCall, Tensor

SECONDS = 30
NUMPY = {v: k for k, v in {"uint8": 0, "int8": 1, "int32": 3, "int64": 4, "float16": 5, "float32": 6}.items()}


def damage(rng: random.Random, blob: bytes, named: dict[str, bytes]) -> tuple[bytes, dict[str, bytes]]:
    """A damaged copy of one of the two."""
    kind = rng.random()
    if kind < 0.05:
        return blob[: rng.randrange(len(blob))], named
    if kind < 0.15 and named:
        key = rng.choice(sorted(named))
        data = bytearray(named[key])
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        for _ in range(rng.randint(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        return blob, {**named, key: bytes(data)}
    data = bytearray(blob)
    end = 40 if kind < 0.25 else len(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(end)
        data[at] = rng.choice([rng.randrange(256), 0, 1, 0xFF, 0x7F, data[at] ^ (1 << rng.randrange(8))])
    return bytes(data), named


def attempt(folder: Path, blob: bytes, named: dict[str, bytes], inputs: list, outputs: list[Output]) -> int:
    """0 if it ran, 1 if it was refused."""
    try:
        with Session(folder, blob, named, 1) as session:
            session.run(inputs, outputs)
    except NativeError:
        return 1
    return 0


def in_child(*args: object) -> str:
    """Call `attempt` in a forked child, and return its outcome: "ran", "refused", "error" or "signal NAME"."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            signal.alarm(SECONDS)
            code = attempt(*args)  # type: ignore[arg-type]
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"signal {signal.Signals(os.WTERMSIG(status)).name}"
    return ["ran", "refused", "error"][min(os.WEXITSTATUS(status), 2)]


def delegates(file: Path) -> list[tuple[bytes, dict[str, bytes], list, list[Output]]]:
    """Blob, named data, inputs and outputs of every delegate call of the first method."""
    pte = read_pte(file.read_bytes())
    plan = pte.program.execution_plan[0]
    named = {key: bytes(blob.data) for key, blob in pte.named_data.items()}
    found = []
    for instruction in plan.chains[0].instructions:
        call = instruction.instr_args
        if not isinstance(call, DelegateCall):
            continue
        blob = bytes(pte.delegate_blob(plan.delegates[call.delegate_index]))
        keys = {key: data for key, data in named.items() if key.encode() in blob}
        arguments = [plan.values[i].val for i in call.args]
        tensors = [t for t in arguments if isinstance(t, Tensor)]
        produced = set(plan.outputs)
        inputs, outputs = [], []
        for index, tensor in zip(call.args, tensors, strict=True):
            dtype = NUMPY[int(tensor.scalar_type)]
            order = tuple(tensor.dim_order)
            if index in produced:
                outputs.append(Output(tuple(tensor.sizes), dtype, order))
            else:
                array = np.random.default_rng(0).standard_normal([tensor.sizes[d] for d in order]).astype(dtype)
                inputs.append(array.transpose(np.argsort(order)))
        found.append((blob, keys, inputs, outputs))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = build_folder()
    if folder is None:
        parser.error("EDGECORE_XNNPACK_BUILD is not set")
    cases = delegates(options.file)
    for blob, named, inputs, outputs in cases:
        if attempt(folder, blob, named, inputs, outputs) != 0:
            parser.error("the undamaged blob does not run")
    results: Counter[str] = Counter()
    for number in range(options.count):
        rng = random.Random(options.seed * 1_000_003 + number)
        blob, named, inputs, outputs = rng.choice(cases)
        result = in_child(folder, *damage(rng, blob, named), inputs, outputs)
        results[result] += 1
        if result.startswith("signal"):
            print(f"case {number}: {result}", flush=True)
    print(dict(results))
    return int(set(results) - {"ran", "refused"} != set())


if __name__ == "__main__":
    sys.exit(main())
