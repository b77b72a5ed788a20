"""Load and run files with damaged blobs: a script for a process of its own, which a crash ends.

Usage: python damage.py FOLDER FIRST COUNT. FOLDER holds the files of `test_corrupt_blobs.py`. The script prints the number
of each try before it starts, and at the end how many blobs were refused and how many ran.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import edgecore
from edgecore import format as fmt
from edgecore.errors import EdgecoreError
from edgecore_vulkan.blob.format import read_graph, write_graph
from edgecore_vulkan.schema import graph as s

NUMBERS = (-1, 0, 1, 2, 3, 4, 7, 64, 65535, 1 << 20, (1 << 31) - 1, -(1 << 31))
LONG_NUMBERS = (*NUMBERS, 1 << 40, -(1 << 63), (1 << 63) - 1)


def damage_bytes(blob: bytes, rng: random.Random) -> bytes:
    """Overwrite one to eight places of a blob with bits, bytes or numbers."""
    data = bytearray(blob)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(data) - 4)
        kind = rng.randrange(3)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at : at + 4] = (rng.choice(NUMBERS) & 0xFFFFFFFF).to_bytes(4, "little")
        else:
            other = rng.randrange(len(data) - 4)
            data[at : at + 4] = data[other : other + 4]
    return bytes(data)


def damage_graph(blob: bytes, rng: random.Random) -> bytes:
    """Change one to four parts of a graph, which stays a well-formed flatbuffer."""
    graph = read_graph(blob)
    changes = (
        _change_call,
        _change_argument,
        _change_argument,
        _change_value,
        _change_value,
        _change_value,
        _change_end,
    )
    for _ in range(rng.choice((1, 1, 2, 4))):
        rng.choice(changes)(graph, rng)
    return write_graph(graph)


def _change_call(graph: s.Graph, rng: random.Random) -> None:
    """Give a call the name of another, remove it, repeat it, or move it to the front."""
    at = rng.randrange(len(graph.chain))
    call = graph.chain[at]
    kind = rng.randrange(4)
    if kind == 0:
        graph.chain[at] = replace(call, name=rng.choice(graph.chain).name)
    elif kind == 1 and len(graph.chain) > 1:
        del graph.chain[at]
    elif kind == 2:
        graph.chain.append(call)
    else:
        graph.chain.insert(0, graph.chain.pop(at))


def _change_argument(graph: s.Graph, rng: random.Random) -> None:
    """Replace, remove, add or swap arguments of a call."""
    call = rng.choice(graph.chain)
    if not call.args:
        return
    at, kind = rng.randrange(len(call.args)), rng.randrange(4)
    if kind == 0:
        call.args[at] = rng.randrange(len(graph.values))
    elif kind == 1:
        del call.args[at]
    elif kind == 2:
        call.args.insert(at, rng.randrange(len(graph.values)))
    else:
        other = rng.randrange(len(call.args))
        call.args[at], call.args[other] = call.args[other], call.args[at]


def _change_value(graph: s.Graph, rng: random.Random) -> None:
    """Change a number, a list, or the description of a tensor."""
    holder = rng.choice(graph.values)
    value: Any = holder.value
    if isinstance(value, s.VkTensor):
        change = rng.randrange(5)
        if change == 0 and value.dims:
            value.dims[rng.randrange(len(value.dims))] = abs(rng.choice(NUMBERS))
        elif change == 1:
            value.dims = [rng.choice((0, 1, 2, 5, 64)) for _ in range(rng.randrange(8))]
        elif change == 2:
            value.datatype = rng.choice(list(s.DataType))
        elif change == 3:
            value.memory_layout = rng.choice(list(s.Layout))
        else:
            value.constant_id = rng.randrange(-1, len(graph.constants) + 1)
    elif isinstance(value, s.Int):
        value.int_val = rng.choice(LONG_NUMBERS)
    elif isinstance(value, s.Bool):
        value.bool_val = not value.bool_val
    elif isinstance(value, s.Double):
        value.double_val = rng.choice((0.0, -1.0, 1e300, float("inf"), float("nan")))
    elif isinstance(value, (s.IntList, s.ValueList)) and value.items:
        numbers = LONG_NUMBERS if isinstance(value, s.IntList) else range(len(graph.values))
        change = rng.randrange(3)
        if change == 0:
            value.items[rng.randrange(len(value.items))] = rng.choice(numbers)
        elif change == 1:
            del value.items[rng.randrange(len(value.items))]
        else:
            value.items.append(rng.choice(numbers))
    else:
        holder.value = rng.choice(graph.values).value


def _change_end(graph: s.Graph, rng: random.Random) -> None:
    """Change an input, an output or a constant."""
    ends = rng.choice((graph.input_ids, graph.output_ids))
    kind = rng.randrange(4)
    if kind == 0 and ends:
        ends[rng.randrange(len(ends))] = rng.randrange(len(graph.values))
    elif kind == 1 and ends:
        del ends[rng.randrange(len(ends))]
    elif kind == 2:
        ends.append(rng.randrange(len(graph.values)))
    elif graph.constants:
        constant = rng.choice(graph.constants)
        constant.length = rng.choice((0, 1, 4, constant.length + 1, 1 << 40))


def main(folder: Path, first: int, count: int) -> None:
    """Try `count` damaged blobs; the number of a try is the seed of its damage."""
    files = sorted(folder.glob("*.pte"))
    programs = [fmt.read_pte(path.read_bytes()) for path in files]
    inputs = [list(np.load(path.with_suffix(".npz")).values()) for path in files]
    damages: tuple[Callable[[bytes, random.Random], bytes], ...] = (damage_bytes, damage_graph, damage_graph)
    refused = 0
    for number in range(first, first + count):
        rng = random.Random(number)
        chosen = rng.randrange(len(programs))
        program = programs[chosen]
        at = rng.randrange(len(program.delegate_blobs))
        blob = bytes(program.delegate_blobs[at])
        damaged = rng.choice(damages)(blob, rng)
        print(number, files[chosen].stem, flush=True)
        program.delegate_blobs[at] = damaged
        try:
            limits = {"planned_bytes": 1 << 28}
            options = {"vulkan": {"timeout_ms": 20000}}
            loaded = edgecore.load(fmt.write_pte(program), options=options, limits=limits, trust=True)
            loaded.forward(*inputs[chosen])
        except (EdgecoreError, ValueError, TypeError, MemoryError):
            refused += 1
        program.delegate_blobs[at] = blob
    print(f"refused {refused}, ran {count - refused}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
