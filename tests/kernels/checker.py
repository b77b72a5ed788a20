"""Compare kernels with eager PyTorch: repeat each functional ATen call whose out variant is in the kernel library."""

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

# Arguments of functional overloads that an out variant does not have, because its `out` tensor fixes them.
FACTORY = {"dtype", "layout", "device", "pin_memory"}


def overload(name: str) -> Any:
    """Return the OpOverload of a name like "aten::add.out", or None if torch does not have it."""
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
    """Finds the kernel that repeats a functional overload."""

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
            return None  # the contents are undefined
        numbers = [not isinstance(v, torch.Tensor) and kind(a) == "Tensor" for a, v in zip(arguments, args)]
        if any(numbers):  # a Python number was passed for a tensor argument: use the scalar overload
            rounds = any(a.name == "rounding_mode" for a in arguments)
            name = f"aten::{base}.Scalar_mode_out" if rounds else f"aten::{base}.Scalar_out"
            return (name, overload(name)) if numbers == [False, True] and name in self.library.kernels else None
        for candidate in (base, base + "_copy"):
            for dropped in (set(), FACTORY):
                kernel = self._by_key.get(key_of(candidate, arguments, dropped))
                if kernel is not None:
                    return kernel
        return None


COMPLEX = {"aten::_conj_physical.out", "aten::_fft_c2r.out", "aten::_fft_r2c.out", "aten::view_as_real_copy.out"}


def supported(name: str, values: Any) -> bool:
    tensors = [t for t in torch.utils._pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]
    if any(t.dtype.is_complex for t in tensors) != (name in COMPLEX):
        return False
    plain = all(t.dtype in SCALAR_TYPES and t.layout == torch.strided and not t.is_conj() for t in tensors)
    return plain and not any(isinstance(v, complex) for v in torch.utils._pytree.tree_leaves(values))


def reaches_past(func: Any, args: Any) -> bool:
    """Return True if as_strided may read storage outside of the tensor's elements. A tensor of a program has none."""
    return func is torch.ops.aten.as_strided.default and args[0].untyped_storage().nbytes() != args[0].nbytes


def cloned(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def reference(func: Any, args: Any, kwargs: Any, index: int) -> torch.Tensor:
    """Compute the call in float64 and return its output `index`."""

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
    """Return True if the max error against float64 is at most twice eager's, or one unit in the last place.

    Eager PyTorch rounds intermediate results of fp16 and bf16 and sums in another order than the kernel, so its result
    is no exact reference. Elements where eager overflowed to NaN although the exact result is finite do not count for
    eager's error.
    """
    if out.shape != exact.shape:
        return False
    exact = exact.double()
    overflowed = expected.isnan() & exact.isfinite()
    if not torch.equal(out.isfinite(), expected.isfinite() | overflowed):
        return False
    finite = out.isfinite() & exact.isfinite()
    if not (finite & ~overflowed).any():
        return not finite.any()
    ours = (out.double() - exact)[finite].abs().max()
    theirs = (expected.double() - exact)[finite & ~overflowed].abs().max()
    unit = torch.finfo(out.dtype).eps * exact[finite].abs().max()
    return bool(ours <= torch.maximum(2 * theirs, unit))


def tolerance(dtype: torch.dtype) -> dict[str, float]:
    """Return the default tolerances of torch.testing.assert_close."""
    rtol, atol = default_tolerances(dtype)
    return {"rtol": rtol, "atol": atol}


class Checker(TorchDispatchMode):
    """Repeats each call on the kernel library, counts calls that agree with eager and collects those that do not.

    An operator without a kernel is decomposed, so that the core operators inside it are checked.
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
        mutates = func._schema.is_mutable
        is_out_variant = any(a.is_out for a in func._schema.arguments)
        kernel = None if is_out_variant else self.catalog.find(func, args)
        if func._can_decompose() and (mutates or kernel is None):
            with self:
                return func.decompose(*args, **kwargs)
        inputs = torch.utils._pytree.tree_map(cloned, (args, kwargs)) if mutates else (args, kwargs)
        result = func(*args, **kwargs)
        if kernel is not None:
            if supported(kernel[0], (args, kwargs, result)) and not reaches_past(func, args):
                self.check(*kernel, func, *inputs, result)
            if func._can_decompose():
                with self:
                    func.decompose(*args, **kwargs)
        elif not mutates and func in self._decompositions:
            with contextlib.suppress(Exception), self:
                self._decompositions[func](*args, **kwargs)
        return result

    def check(self, name: str, op: Any, func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        values = {a.name: value for a, value in zip(func._schema.arguments, args)} | kwargs
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        outs = [
            torch.empty_strided(r.shape, r.stride(), dtype=r.dtype) if dense(r) else torch.empty_like(r).contiguous()
            for r in results
        ]
        for out in outs:
            fill_with_garbage(out)
        call_args = []
        for a in inputs_of(op._schema):
            value = values.get(a.name, a.default_value)
            has_value = a.name in values or a.has_default_value()
            assert has_value, f"{name}: no value for {a.name}"
            # The schema's type decides: an int that is passed for a float argument is a float in the .pte.
            if kind(a) == "float" or (kind(a) == "Optional[float]" and value is not None):
                value = float(value)
            if kind(a).startswith("List[int]") or kind(a) == "Optional[List[int]]":
                value = [value] if isinstance(value, int) and not isinstance(value, bool) else value
            call_args.append(value)
        if not results:
            return  # an empty list of outputs: there is nothing to compare
        is_list = any("List[Tensor]" in kind(a) for a in op._schema.arguments if a.is_out)
        call_args += [outs] if is_list else outs
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
    """Return True if `indices` are distinct along `dim` and select exactly `values`."""
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


def fill_with_garbage(t: torch.Tensor) -> None:
    """Fill an output with fixed values, so that an element that a kernel does not write makes the test fail."""
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
