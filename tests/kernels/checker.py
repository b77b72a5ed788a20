"""Compares kernels with eager PyTorch: every functional ATen call that has an out variant in the library is repeated."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from typing import Any

import torch
from native import SCALAR_TYPES, KernelError, Library
from torch._decomp import core_aten_decompositions
from torch.testing._comparison import default_tolerances
from torch.utils._python_dispatch import TorchDispatchMode

# Arguments of functional overloads that out variants express through `out`.
FACTORY = {"dtype", "layout", "device", "pin_memory"}


def overload(name: str) -> Any:
    """The OpOverload of "aten::add.out", or None."""
    namespace, rest = name.split("::")
    base, _, variant = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, variant or "default", None)


def kind(argument: Any) -> str:
    return str(argument.type).replace("SymInt", "int")


def inputs_of(schema: Any) -> list[Any]:
    return [a for a in schema.arguments if not a.is_out]


def key_of(base: str, arguments: list[Any], dropped: set[str]) -> tuple[Any, ...]:
    return (base, *((a.name, kind(a)) for a in arguments if a.name not in dropped))


class Catalog:
    """Which kernel repeats which functional overload."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._by_key: dict[tuple[Any, ...], tuple[str, Any]] = {}
        for name in library.kernels:
            if not name.startswith("aten::") or "." not in name:
                continue
            op = overload(name)
            if op is None or not any(a.is_out for a in op._schema.arguments):
                continue
            base = name.split("::")[1].split(".")[0]
            self._by_key[key_of(base, inputs_of(op._schema), set())] = (name, op)

    def find(self, func: Any, args: Any) -> tuple[str, Any] | None:
        base = func._schema.name.split("::")[1]
        arguments = inputs_of(func._schema)
        if base.startswith("empty"):
            return None  # nothing to compare
        numbers = [not isinstance(v, torch.Tensor) and kind(a) == "Tensor" for a, v in zip(arguments, args)]
        if any(numbers):  # a Python number in a tensor's place: the scalar overload's work
            rounds = any(a.name == "rounding_mode" for a in arguments)
            name = f"aten::{base}.Scalar_mode_out" if rounds else f"aten::{base}.Scalar_out"
            return (name, overload(name)) if numbers == [False, True] and name in self.library.kernels else None
        for candidate in (base, base + "_copy"):
            for dropped in (set(), FACTORY):
                found = self._by_key.get(key_of(candidate, arguments, dropped))
                if found is not None:
                    return found
        return None


COMPLEX = {"aten::_conj_physical.out", "aten::_fft_c2r.out", "aten::_fft_r2c.out", "aten::view_as_real_copy.out"}


def supported(name: str, values: Any) -> bool:
    tensors = [t for t in torch.utils._pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]
    if any(t.dtype.is_complex for t in tensors) != (name in COMPLEX):
        return False
    plain = all(t.dtype in SCALAR_TYPES and t.layout == torch.strided and not t.is_conj() for t in tensors)
    return plain and not any(isinstance(v, complex) for v in torch.utils._pytree.tree_leaves(values))


def reaches_past(func: Any, args: Any) -> bool:
    """Whether as_strided reads storage outside of the tensor's own elements: a value in a program has none."""
    return func is torch.ops.aten.as_strided.default and args[0].untyped_storage().nbytes() != args[0].nbytes


def cloned(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def reference(func: Any, args: Any, kwargs: Any, index: int) -> torch.Tensor:
    """Output `index` of the call computed in float64."""

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
            return value.double()
        if isinstance(value, torch.Tensor) and value.dtype.is_complex:
            return value.to(torch.complex128)
        return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value

    args, kwargs = torch.utils._pytree.tree_map(widen, (args, kwargs))
    result = func(*args, **kwargs)
    return result[index] if isinstance(result, (tuple, list)) else result


def as_good(out: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether the greatest error against float64 is at most twice eager's, or a unit in the last place.

    Eager rounds intermediate results of half types and sums in another order: it is no better a judge than this. Where
    it overflowed to NaN on the way to a finite result, its error elsewhere is the measure.
    """
    if out.shape != exact.shape:
        return False
    exact = exact.double()
    lost = expected.isnan() & exact.isfinite()
    if not torch.equal(out.isfinite(), expected.isfinite() | lost):
        return False
    finite = out.isfinite() & exact.isfinite()
    if not (finite & ~lost).any():
        return not finite.any()
    ours = (out.double() - exact)[finite].abs().max()
    theirs = (expected.double() - exact)[finite & ~lost].abs().max()
    unit = torch.finfo(out.dtype).eps * exact[finite].abs().max()
    return bool(ours <= torch.maximum(2 * theirs, unit))


def tolerance(dtype: torch.dtype) -> dict[str, float]:
    """What torch.testing.assert_close allows."""
    rtol, atol = default_tolerances(dtype)
    return {"rtol": rtol, "atol": atol}


class Checker(TorchDispatchMode):
    """Repeats each call on the library; counts agreement, collects disagreement.

    Operators that are no kernel's are taken apart, so that the core operators under them are called too.
    """

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self.catalog = catalog
        self.passed: Counter[str] = Counter()
        self.failed: dict[str, list[str]] = {}
        self.dtypes: dict[str, set[torch.dtype]] = {}
        self._decompositions = core_aten_decompositions()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        changes = func._schema.is_mutable
        out_given = any(a.is_out for a in func._schema.arguments)
        found = None if out_given else self.catalog.find(func, args)
        if func._can_decompose() and (changes or found is None):
            with self:
                return func.decompose(*args, **kwargs)
        given = torch.utils._pytree.tree_map(cloned, (args, kwargs)) if changes else (args, kwargs)
        result = func(*args, **kwargs)
        if found is not None:
            if supported(found[0], (args, kwargs, result)) and not reaches_past(func, args):
                self.check(*found, func, *given, result)
            if func._can_decompose():
                with self:
                    func.decompose(*args, **kwargs)
        elif not changes and func in self._decompositions:
            with contextlib.suppress(Exception), self:
                self._decompositions[func](*args, **kwargs)
        return result

    def check(self, name: str, op: Any, func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        given = {a.name: value for a, value in zip(func._schema.arguments, args)} | kwargs
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        outs = [
            torch.empty_strided(r.shape, r.stride(), dtype=r.dtype) if dense(r) else torch.empty_like(r).contiguous()
            for r in results
        ]
        for out in outs:
            fill_with_rubbish(out)
        call_args = []
        for a in inputs_of(op._schema):
            value = given.get(a.name, a.default_value)
            number = a.name in given or a.has_default_value()
            assert number, f"{name}: no value for {a.name}"
            # Schema types decide: an int given for a float argument is a float in the .pte.
            if kind(a) == "float" or (kind(a) == "Optional[float]" and value is not None):
                value = float(value)
            if kind(a).startswith("List[int]") or kind(a) == "Optional[List[int]]":
                value = [value] if isinstance(value, int) and not isinstance(value, bool) else value
            call_args.append(value)
        if not results:
            return  # a list of no tensors
        lists = any("List[Tensor]" in kind(a) for a in op._schema.arguments if a.is_out)
        call_args += [outs] if lists else outs
        try:
            self.catalog.library.call(name, *call_args)
            for i, (out, expected) in enumerate(zip(outs, results, strict=True)):
                limits = tolerance(out.dtype)
                if name == "aten::topk.values" and i == 1 and valid_order(call_args[0], call_args[2], outs[0], out):
                    continue  # equal values may come in any order
                if out.shape == expected.shape and torch.allclose(out, expected, equal_nan=True, **limits):
                    continue
                if not (out.dtype.is_floating_point and as_good(out, expected, reference(func, args, kwargs, i))):
                    torch.testing.assert_close(out, expected, equal_nan=True, **limits)
        except (KernelError, AssertionError) as error:
            described = ", ".join(describe(v) for v in call_args)
            self.failed.setdefault(name, []).append(f"({described}): {' '.join(str(error).split())[:300]}")
        else:
            self.passed[name] += 1
            tensors = [t for t in torch.utils._pytree.tree_leaves((args, results)) if isinstance(t, torch.Tensor)]
            self.dtypes.setdefault(name, set()).update(t.dtype for t in tensors[:1])


def valid_order(self: torch.Tensor, dim: int, values: torch.Tensor, indices: torch.Tensor) -> bool:
    """Whether `indices` name different entries along `dim`, and those are `values`."""
    if self.dim() == 0:
        return bool((indices == 0).all())
    ordered = indices.sort(dim).values
    different = (ordered.diff(dim=dim) > 0).all()
    return bool(different) and torch.equal(self.gather(dim, indices).nan_to_num(), values.nan_to_num())


def dense(t: torch.Tensor) -> bool:
    strides = sorted((s, n) for s, n in zip(t.stride(), t.shape) if n != 1)
    expected = 1
    for stride, size in strides:
        if stride != expected:
            return False
        expected *= size
    return True


def fill_with_rubbish(t: torch.Tensor) -> None:
    """So that an element that a kernel forgets to write shows."""
    if t.dtype == torch.bool:
        t.fill_(True)
    elif t.dtype.is_complex:
        t.fill_(complex(3, 4))
    elif t.dtype.is_floating_point:
        t.fill_(math.pi)
    elif t.dtype not in (torch.uint16, torch.uint32):
        t.fill_(77)


def describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]}{list(value.shape)}/{list(value.stride())}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(describe(v) for v in value) + "]"
    return str(value)
