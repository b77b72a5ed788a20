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
    """A constant of a file, or the blob of a delegate, which contains constants, too.

    Attributes:
        name: Its qualified name, else the operator that reads it: "features.0 convolution, argument 1".
        place: "constants", "initial state", ".ptd", "delegate blobs" or "data of a delegate".
        bytes: Its size.
        sha256: Hash of its content; empty if it is in a `.ptd` that was not given, and the file has no hash of it.
        dtype: Name of the dtype; empty for data of a delegate, which has a form of its own.
        shape: Its sizes.
        data: Its content; None if it is elsewhere.
        method: The first method that reads it; empty if its name is one of the whole file.
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
    """Return the constants of a file.

    Args:
        pte: The file.
        external: Entries of its `.ptd` files, as far as they are known.
    """
    meta = get_meta(pte)
    digests = {one.key: bytes(one.sha256).hex() for one in meta.data} if meta else {}
    symbols = ProgramSymbols(pte)
    found: dict[tuple[str, Any], Weight] = {}
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
                found[".ptd", name] = Weight(name, ".ptd", tensor.nbytes, digest, dtype, shape, data)
            elif tensor.data_buffer_idx:
                place = "initial state" if tensor.allocation_info else "constants"
                source = pte.mutable if tensor.allocation_info else pte.constants
                if tensor.data_buffer_idx < len(source) and (place, tensor.data_buffer_idx) not in found:
                    data = memoryview(source[tensor.data_buffer_idx]).cast("B")[: tensor.nbytes]
                    found[place, tensor.data_buffer_idx] = Weight(
                        name, place, tensor.nbytes, _hash(data), dtype, shape, data, plan.name
                    )
    for plan in pte.program.execution_plan:
        for index, delegate in enumerate(plan.delegates):
            name, blob = f"blob of {plan.name}/{index} {delegate.id}", pte.delegate_blob(delegate)
            found["blob", name] = Weight(name, "delegate blobs", memoryview(blob).nbytes, _hash(blob))
    named = {key: one.data for key, one in pte.named_data.items() if key != META_KEY}
    named |= {key: one.data for key, one in external.items() if one.layout is None}
    for key, data in named.items():
        found["named", key] = Weight(key, "data of a delegate", memoryview(data).nbytes, _hash(data))
    return list(found.values())


def _users(plan: fmt.ExecutionPlan, symbols: ProgramSymbols) -> dict[int, str]:
    """Map the arguments of kernels to names: the first kernel that reads each, by its module and operator."""
    found: dict[int, str] = {}
    seen: dict[str, int] = {}
    for step, one in enumerate(plan.chains[0].instructions if plan.chains else ()):
        call = one.instr_args
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
                    found.setdefault(item, f"{name}{number}, argument {position}, item {place}")
            else:
                found.setdefault(index, f"{name}{number}, argument {position}")
    return found


def _hash(data: Buffer) -> str:
    return hashlib.sha256(data).hexdigest()


def compare_weights(a: list[Weight], b: list[Weight]) -> dict[str, Any]:
    """Compare two lists of weights.

    Weights of one method and name are equal, changed, or moved to another place. Of the others, those with the same
    content are equal or moved, and then those are compared whose name is unique in both files. Data of delegates, whose
    names are often hashes, are paired by size, if both files have the same sizes left.
    """
    by_name = {(weight.method, weight.name): weight for weight in b}
    pairs = [(one, by_name.pop((one.method, one.name))) for one in a if (one.method, one.name) in by_name]
    pairs += _of_one_content(*_without(a, b, pairs))
    pairs += _of_one_name(*_without(a, b, pairs))
    pairs += _of_one_size(*_without(a, b, pairs))
    gone, added = _without(a, b, pairs)
    result: dict[str, Any] = {
        "different": False, "equal": 0, "moved": [], "changed": [], "unknown": [],
        "gone": [_row(one) for one in gone], "added": [_row(one) for one in added],
    }  # fmt: skip
    for one, other in pairs:
        if not one.sha256 or not other.sha256:
            result["unknown"].append(one.name)
        elif one.sha256 != other.sha256 or not _fit(one, other):
            result["changed"].append(_changed(one, other))
        elif one.place != other.place:
            result["moved"].append({"name": one.name, "bytes": one.bytes, "a": one.place, "b": other.place})
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
    for one in a:
        same = by_content.get(one.sha256, []) if one.sha256 else []
        fit = [other for other in same if _fit(one, other)]
        if fit:
            best = min(fit, key=lambda other: other.place != one.place)
            same.remove(best)
            pairs.append((one, best))
    return pairs


def _of_one_name(a: list[Weight], b: list[Weight]) -> _Pairs:
    """Pair weights by a name that is unique on both sides: their methods have other names, or are not known."""
    counts = [Counter(one.name for one in side) for side in (a, b)]
    by_name = {one.name: one for one in b}
    return [(one, by_name[one.name]) for one in a if counts[0][one.name] == counts[1][one.name] == 1]


def _of_one_size(a: list[Weight], b: list[Weight]) -> _Pairs:
    nameless = [sorted((one for one in side if not one.dtype), key=lambda one: one.bytes) for side in (a, b)]
    sizes = [[one.bytes for one in side] for side in nameless]
    if sizes[0] != sizes[1]:
        return []
    return [pair for pair in zip(nameless[0], nameless[1], strict=True) if sizes[0].count(pair[0].bytes) == 1]


def _fit(one: Weight, other: Weight) -> bool:
    """Return False if two weights have different forms; data of a delegate have none that is known."""
    return not one.dtype or not other.dtype or (one.dtype, one.shape) == (other.dtype, other.shape)


def _without(a: list[Weight], b: list[Weight], pairs: _Pairs) -> tuple[list[Weight], list[Weight]]:
    used = {id(one) for pair in pairs for one in pair}
    return [one for one in a if id(one) not in used], [one for one in b if id(one) not in used]


def _row(one: Weight) -> dict[str, Any]:
    return {"name": one.name, "method": one.method, "place": one.place, "bytes": one.bytes, "dtype": one.dtype,
            "shape": list(one.shape)}  # fmt: skip


def _changed(one: Weight, other: Weight) -> dict[str, Any]:
    row: dict[str, Any] = {"name": one.name, "a": _row(one), "b": _row(other), "max_abs": None, "sqnr_db": None}
    if (one.dtype, one.shape) != (other.dtype, other.shape) or not one.dtype:
        return row
    values = [_values(weight) for weight in (one, other)]
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
    """Return b - a, with 0 where both are the same infinity, as in masks of attention."""
    import numpy

    return numpy.subtract(b, a, where=a != b, out=numpy.zeros_like(a))


def _values(weight: Weight) -> Any:
    """Return the values as float64; None if they are not here, or numpy is not, or it has no such dtype."""
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
