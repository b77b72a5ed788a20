"""Define the operators in torch. Import this module before a model uses them, and before it is compiled."""

import torch

_library = torch.library.Library("example_ops", "DEF")
_library.define("multiply_add(Tensor a, Tensor b, float scale) -> Tensor")
# The out variant, which the .pte calls and kernels.cpp implements.
_library.define("multiply_add.out(Tensor a, Tensor b, float scale, *, Tensor(a!) out) -> Tensor(a!)")
_library.define("append(Tensor rows, Tensor(a!) cache, SymInt position) -> ()")


@torch.library.impl(_library, "multiply_add", "CompositeExplicitAutograd")
def multiply_add(a: torch.Tensor, b: torch.Tensor, scale: float) -> torch.Tensor:
    """Compute `a * b * scale + a` elementwise, for tensors of equal shapes."""
    return a * b * scale + a


@torch.library.impl(_library, "multiply_add.out", "CompositeExplicitAutograd")
def multiply_add_out(a: torch.Tensor, b: torch.Tensor, scale: float, *, out: torch.Tensor) -> torch.Tensor:
    """Compute `a * b * scale + a` into `out`."""
    return out.copy_(multiply_add(a, b, scale))


@torch.library.register_fake("example_ops::multiply_add", lib=_library)
def _multiply_add_fake(a: torch.Tensor, b: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.empty_like(a)


@torch.library.impl(_library, "append", "CompositeExplicitAutograd")
def append(rows: torch.Tensor, cache: torch.Tensor, position: int) -> None:
    """Write `rows` into `cache`, from row `position` on."""
    cache.narrow(0, position, rows.shape[0]).copy_(rows)


@torch.library.register_fake("example_ops::append", lib=_library)
def _append_fake(rows: torch.Tensor, cache: torch.Tensor, position: int) -> None:
    return None
