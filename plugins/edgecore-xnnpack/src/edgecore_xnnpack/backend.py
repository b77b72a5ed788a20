"""Tell edgecore about the backend: its delegate library, and a test of its kernels on this processor.

Loading a `.pte` imports this module, so it must import quickly: it imports neither torch nor pathlib.
"""

from __future__ import annotations

import edgecore_xnnpack
from edgecore.plugin import BackendInfo, hookimpl, own_library


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(edgecore_xnnpack.__path__, "edgecore_xnnpack")


def self_test() -> list[tuple[str, bool, str]]:
    """Compare the kernels that XNNPACK selects on this processor with a reference; see `library`."""
    from edgecore_xnnpack.library import try_kernels

    return try_kernels(native_library())


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Describe the backend of this package to edgecore."""
    return [
        BackendInfo(
            name="xnnpack",
            backend_id="XnnpackBackend",
            summary="CPU: Arm and x86",
            compiler="edgecore_xnnpack.compiler:XnnpackCompiler",
            native_library=native_library,
            self_test=self_test,
        )
    ]
