"""edgecore's entry point: tells the paths of the delegate's library and of the TOSA simulator, and checks the tools."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import edgecore_ethosu
from edgecore.plugin import BackendInfo, hookimpl, installed_file, own_library


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(edgecore_ethosu.__path__, "edgecore_ethosu")


def simulator_library() -> str | None:
    """Return the absolute path of the TOSA simulator in the package `edgecore-tosa`; None if that is not installed."""
    return installed_file("edgecore_tosa", "lib", "libedgecore_tosa_simulator.*")


def load_options() -> dict[str, str]:
    """Return the load option that tells the delegate the path of the TOSA simulator."""
    path = simulator_library()
    return {"simulator": path} if path else {}


def self_test() -> list[tuple[str, bool, str, str]]:
    """Return rows of `edgecore doctor` (check, passed, detail, remedy) with the versions of Arm's tools."""
    return [
        ("Vela", True, installed("ethos-u-vela") or "not installed; only compiling needs it", ""),
        ("TOSA simulator", True, installed("edgecore-tosa") or "not installed; only a workstation needs it", ""),
    ]


def installed(package: str) -> str | None:
    """Return the version of a pip package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Return the description of the Ethos-U backend."""
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
