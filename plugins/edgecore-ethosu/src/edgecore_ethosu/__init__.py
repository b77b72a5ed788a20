"""The Ethos-U backend. Loading a file imports this module, so it must not import torch, numpy or Vela."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from edgecore.plugin import BackendInfo, hookimpl, installed_file, lazy_names, own_library

__getattr__ = lazy_names(
    "edgecore_ethosu",
    {
        "EthosUCompileSpec": "edgecore_ethosu.compile_spec",
        "EthosUPartitioner": "edgecore_ethosu.partitioner",
        "EthosUQuantizer": "edgecore_ethosu.quantizer",
    },
)


executorch_modules = {
    "executorch.backends.arm.ethosu": {
        "EthosUCompileSpec": "edgecore_ethosu.compile_spec:EthosUCompileSpec",
        "EthosUPartitioner": "edgecore_ethosu.partitioner:EthosUPartitioner",
    },
    "executorch.backends.arm.quantizer": {
        "EthosUQuantizer": "edgecore_ethosu.quantizer:EthosUQuantizer",
        "get_symmetric_quantization_config": "edgecore_tosa.quantizer:get_symmetric_quantization_config",
    },
}
"""Names of ExecuTorch for `python -m edgecore.executorch`, and their counterparts here."""


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(__path__, "edgecore_ethosu")


def simulator_library() -> str | None:
    """Return the absolute path of the TOSA simulator in the package `edgecore-tosa`; None if there is none."""
    return installed_file("edgecore_tosa", "lib", "libedgecore_tosa_simulator.*")


def load_options() -> dict[str, str]:
    """Return the load option with the path of the simulator; the delegate does not search for it."""
    path = simulator_library()
    return {"simulator": path} if path else {}


def self_test() -> list[tuple[str, bool, str, str]]:
    """Return the rows of `edgecore doctor`: check, passed, detail and remedy. The releases of Vela and the simulator."""
    return [
        ("Vela", True, installed("ethos-u-vela") or "not installed; only compiling needs it", ""),
        ("TOSA simulator", True, installed("edgecore-tosa") or "not installed; only a workstation needs it", ""),
    ]


def installed(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Return the backend of this package."""
    return [
        BackendInfo(
            name="ethosu",
            backend_id="EthosUBackend",
            summary="Arm's NPUs Ethos-U55, U65 and U85",
            compiler="edgecore_ethosu.compiler:EthosUCompiler",
            native_library=native_library,
            load_options=load_options,
            self_test=self_test,
        )
    ]
