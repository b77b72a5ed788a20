"""Compare the weights of two files by name and by content."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgecore import format as fmt
from edgecore.devtools.graph import kernel_name
from edgecore.devtools.profiling import ProgramSymbols, module
from edgecore.format import META_KEY, Buffer, PteFile, get_meta
from edgecore.numerics.decibels import ratio_in_decibels


@dataclass(slots=True)
class Weight:
    """A constant of a file, or the data of a delegate: its blob or named data, which may contain constants.

    Attributes:
        name: Qualified name, or the operator that reads the constant: "features.0 convolution, argument 1".
        place: "constants", "initial state", ".ptd", "delegate blobs" or "data of a delegate".
        bytes: Size in bytes.
        sha256: Hash of the content; empty if the caller did not pass the `.ptd` and the file does not record the hash.
        dtype: Name of the dtype; empty for data of a delegate, whose format only the backend knows.
        shape: Sizes of the dims.
        data: Content; None if it is in a `.ptd` that the caller did not pass.
        method: The first method that reads the constant; empty if the name is unique in the file.
    """

    name: str
    place: str
    bytes: int
    sha256: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    data: Buffer | None = None
    method: str = ""


def weights_of(pte: PteFile, external: Mapping[str, fmt.ExternalData]) -> list[Weight]:
    """Return the constants of a file, and the data of its delegates.

    Args:
        pte: The file.
        external: The entries of the `.ptd` files that the caller passed.
    """
    meta = get_meta(pte)
    digests = {entry.key: bytes(entry.sha256).hex() for entry in meta.data} if meta else {}
    symbols = ProgramSymbols(pte)
    weights: dict[tuple[str, Any], Weight] = {}
    for plan in pte.program.execution_plan:
        users = _users(plan, symbols)
        for index, value in enumerate(plan.values):
            tensor = value.val
            if not isinstance(tensor, fmt.Tensor):
                continue
            info = tensor.extra_tensor_info
            name = (info.fully_qualified_name if info else "") or users.get(index, f"value {index} of {plan.name}")
            shape, dtype = tuple(tensor.sizes), tensor.scalar_type.dtype_name
            if info and info.location == fmt.TensorDataLocation.EXTERNAL:
                data = external[name].data if name in external else None
                digest = _hash(data) if data is not None else digests.get(name, "")
                weights[".ptd", name] = Weight(name, ".ptd", tensor.nbytes, digest, dtype, shape, data)
            elif tensor.data_buffer_idx:
                place = "initial state" if tensor.allocation_info else "constants"
                source = pte.mutable if tensor.allocation_info else pte.constants
                if tensor.data_buffer_idx < len(source) and (place, tensor.data_buffer_idx) not in weights:
                    data = memoryview(source[tensor.data_buffer_idx]).cast("B")[: tensor.nbytes]
                    weights[place, tensor.data_buffer_idx] = Weight(
                        name, place, tensor.nbytes, _hash(data), dtype, shape, data, plan.name
                    )
    for plan in pte.program.execution_plan:
        for index, delegate in enumerate(plan.delegates):
            name, blob = f"blob of {plan.name}/{index} {delegate.id}", pte.delegate_blob(delegate)
            weights["blob", name] = Weight(name, "delegate blobs", memoryview(blob).nbytes, _hash(blob))
    named = {key: entry.data for key, entry in pte.named_data.items() if key != META_KEY}
    named |= {key: entry.data for key, entry in external.items() if entry.layout is None}
    for key, data in named.items():
        weights["named", key] = Weight(key, "data of a delegate", memoryview(data).nbytes, _hash(data))
    return list(weights.values())


def _users(plan: fmt.ExecutionPlan, symbols: ProgramSymbols) -> dict[int, str]:
    """Name each kernel argument by the module and operator of the first kernel that reads it, and by its position."""
    names: dict[int, str] = {}
    seen: dict[str, int] = {}
    for step, instruction in enumerate(plan.chains[0].instructions if plan.chains else ()):
        call = instruction.instr_args
        if not isinstance(call, fmt.KernelCall) or not 0 <= call.op_index < len(plan.operators):
            continue
        origins = symbols.origins(plan.name, step)
        name = f"{module(origins) if origins else plan.name} {kernel_name(plan.operators[call.op_index].key)}"
        seen[name] = seen.get(name, 0) + 1
        number = f" #{seen[name] - 1}" if seen[name] > 1 else ""
        for position, index in enumerate(call.args):
            value = plan.values[index].val if 0 <= index < len(plan.values) else None
            if isinstance(value, (fmt.TensorList, fmt.OptionalTensorList)):
                for place, item in enumerate(value.items):
                    names.setdefault(item, f"{name}{number}, argument {position}, item {place}")
            else:
                names.setdefault(index, f"{name}{number}, argument {position}")
    return names


def _hash(data: Buffer) -> str:
    return hashlib.sha256(data).hexdigest()


def compare_weights(a: list[Weight], b: list[Weight]) -> dict[str, Any]:
    """Pair the weights of two files, and sort the pairs into equal, changed and moved.

    Weights are paired by method and name, then by content, then by a name that is unique in both files. Delegates'
    data, whose names are often hashes, is paired by size, if the remaining data of both files has the same sizes.
    """
    by_name = {(weight.method, weight.name): weight for weight in b}
    pairs = [(old, by_name.pop((old.method, old.name))) for old in a if (old.method, old.name) in by_name]
    pairs += _of_one_content(*_without(a, b, pairs))
    pairs += _of_one_name(*_without(a, b, pairs))
    pairs += _of_one_size(*_without(a, b, pairs))
    gone, added = _without(a, b, pairs)
    result: dict[str, Any] = {
        "different": False,
        "equal": 0,
        "moved": [],
        "changed": [],
        "unknown": [],
        "gone": [_row(weight) for weight in gone],
        "added": [_row(weight) for weight in added],
    }
    for old, new in pairs:
        if not old.sha256 or not new.sha256:
            result["unknown"].append(old.name)
        elif old.sha256 != new.sha256 or not _fit(old, new):
            result["changed"].append(_changed(old, new))
        elif old.place != new.place:
            result["moved"].append({"name": old.name, "bytes": old.bytes, "a": old.place, "b": new.place})
        else:
            result["equal"] += 1
    result["different"] = any(result[key] for key in ("moved", "changed", "gone", "added"))
    return result


_Pairs = list[tuple[Weight, Weight]]


def _of_one_content(a: list[Weight], b: list[Weight]) -> _Pairs:
    pairs = []
    by_content: dict[str, list[Weight]] = {}
    for weight in b:
        by_content.setdefault(weight.sha256, []).append(weight)
    for old in a:
        same = by_content.get(old.sha256, []) if old.sha256 else []
        fit = [new for new in same if _fit(old, new)]
        if fit:
            best = min(fit, key=lambda new: new.place != old.place)
            same.remove(best)
            pairs.append((old, best))
    return pairs


def _of_one_name(a: list[Weight], b: list[Weight]) -> _Pairs:
    """Pair weights whose name is unique in each file, even if their methods have different names or are unknown."""
    counts = [Counter(weight.name for weight in side) for side in (a, b)]
    by_name = {weight.name: weight for weight in b}
    return [(old, by_name[old.name]) for old in a if counts[0][old.name] == counts[1][old.name] == 1]


def _of_one_size(a: list[Weight], b: list[Weight]) -> _Pairs:
    nameless = [sorted((row for row in side if not row.dtype), key=lambda row: row.bytes) for side in (a, b)]
    sizes = [[weight.bytes for weight in side] for side in nameless]
    if sizes[0] != sizes[1]:
        return []
    return [pair for pair in zip(nameless[0], nameless[1], strict=True) if sizes[0].count(pair[0].bytes) == 1]


def _fit(old: Weight, new: Weight) -> bool:
    """Return False if the dtypes or shapes differ. A delegate's data has no dtype, so it fits any other such data."""
    return not old.dtype or not new.dtype or (old.dtype, old.shape) == (new.dtype, new.shape)


def _without(a: list[Weight], b: list[Weight], pairs: _Pairs) -> tuple[list[Weight], list[Weight]]:
    used = {id(weight) for pair in pairs for weight in pair}
    return [weight for weight in a if id(weight) not in used], [weight for weight in b if id(weight) not in used]


def _row(weight: Weight) -> dict[str, Any]:
    row = {key: getattr(weight, key) for key in ("name", "method", "place", "bytes", "dtype")}
    return {**row, "shape": list(weight.shape)}


def _changed(old: Weight, new: Weight) -> dict[str, Any]:
    row: dict[str, Any] = {"name": old.name, "a": _row(old), "b": _row(new), "max_abs": None, "sqnr_db": None}
    if (old.dtype, old.shape) != (new.dtype, new.shape) or not old.dtype:
        return row
    values = [_values(weight) for weight in (old, new)]
    if values[0] is None or values[1] is None:
        return row
    noise = _difference(values[0], values[1])
    largest = float(abs(noise).max(initial=0))
    if math.isfinite(largest):
        row["max_abs"] = largest
        ratio = ratio_in_decibels(_norm(values[0]), _norm(noise))
        row["sqnr_db"] = round(ratio, 2) if math.isfinite(ratio) else None
    return row


def _norm(values: Any) -> float:
    return float((values**2).sum() ** 0.5)


def _difference(a: Any, b: Any) -> Any:
    """Return b - a; 0 where both are the same infinity, as in attention masks, because the difference would be NaN."""
    import numpy

    return numpy.subtract(b, a, where=a != b, out=numpy.zeros_like(a))


def _values(weight: Weight) -> Any:
    """Return the values as float64; None if the content is missing, or numpy is not installed or lacks the dtype."""
    try:
        import numpy
    except ImportError:
        return None
    if weight.data is None:
        return None
    if weight.dtype == "bfloat16":
        bits = numpy.frombuffer(weight.data, numpy.uint16).astype(numpy.uint32) << 16
        return bits.view(numpy.float32).astype(numpy.float64)
    try:
        return numpy.frombuffer(weight.data, numpy.dtype(weight.dtype)).astype(numpy.float64)
    except (TypeError, ValueError):
        return None
