"""The operator in torch: import this where a model uses it, or is compiled. Registers it when imported."""

import torch

_library = torch.library.Library("example_ops", "DEF")
_library.define("multiply_add(Tensor a, Tensor b, float scale) -> Tensor")
# What the .pte calls: the kernel in kernels.cpp.
_library.define("multiply_add.out(Tensor a, Tensor b, float scale, *, Tensor(a!) out) -> Tensor(a!)")


@torch.library.impl(_library, "multiply_add", "CompositeExplicitAutograd")
def multiply_add(a: torch.Tensor, b: torch.Tensor, scale: float) -> torch.Tensor:
    """`a * b * scale + a`, element by element; both tensors have one shape."""
    return a * b * scale + a


@torch.library.impl(_library, "multiply_add.out", "CompositeExplicitAutograd")
def multiply_add_out(a: torch.Tensor, b: torch.Tensor, scale: float, *, out: torch.Tensor) -> torch.Tensor:
    """The same, into `out`."""
    return out.copy_(multiply_add(a, b, scale))


@torch.library.register_fake("example_ops::multiply_add", lib=_library)
def _multiply_add_fake(a: torch.Tensor, b: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.empty_like(a)
