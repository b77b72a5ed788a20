"""Load and run a randomly damaged blob in a child process, which tells how it ended.

One to four bytes change, mostly of the blob, some in the named data; some cases are a truncation. `native/fuzz` tries
many more.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from native_host import NativeError, Output, Session

SECONDS = 30


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
