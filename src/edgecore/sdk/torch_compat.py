"""Private API of torch and torchao under public names, for backends: see `edgecore.ir.torch_compat`.

Experimental: may change in any release.
"""

from __future__ import annotations

from edgecore.stability import public_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.ir.torch_compat import AffineQuantizedMinMaxObserver as AffineQuantizedMinMaxObserver
    from edgecore.ir.torch_compat import OpOverload as OpOverload
    from edgecore.ir.torch_compat import OpOverloadPacket as OpOverloadPacket
    from edgecore.ir.torch_compat import Verifier as Verifier
    from edgecore.ir.torch_compat import pytree as pytree
    from edgecore.ir.torch_compat import quantized_operators as quantized_operators
    from edgecore.ir.torch_compat import register_codebook_operators as register_codebook_operators
    from edgecore.ir.torch_compat import replace_parts as replace_parts
    from edgecore.ir.torch_compat import schema_of as schema_of

__all__, __getattr__ = public_names(
    "edgecore.sdk.torch_compat",
    {
        "edgecore.ir.torch_compat": (
            "AffineQuantizedMinMaxObserver OpOverload OpOverloadPacket Verifier pytree quantized_operators "
            "register_codebook_operators replace_parts schema_of"
        )
    },
)
