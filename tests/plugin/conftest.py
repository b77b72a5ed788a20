"""Fake backend packages: a .dist-info folder and a module on a temporary sys.path."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from toy_backend import install, install_toy, toy_library, toy_program  # noqa: F401

from edgecore.plugin import registry

GOOD = """
    from pathlib import Path
    from edgecore.plugin import BackendInfo, hookimpl

    @hookimpl
    def edgecore_backends():
        return [BackendInfo(name={name!r}, backend_id={backend_id!r}, summary="a fake", compiler="nowhere:Nothing",
                            native_library={library})]
"""

AddPackage = Callable[..., str]


@pytest.fixture
def add_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AddPackage]:
    """add_package(distribution, backend_id, source) makes an installed package; its module is named after both."""
    monkeypatch.syspath_prepend(tmp_path)
    for variable in ("EDGECORE_BACKENDS_ALLOW", "EDGECORE_BACKENDS_DENY"):
        monkeypatch.delenv(variable, raising=False)
    modules: list[str] = []

    def add(
        distribution: str,
        backend_id: str,
        source: str = GOOD,
        *,
        name: str = "fake",
        library: str = "None",
        hook_id: str = "",
    ) -> str:
        module = distribution.replace("-", "_")
        modules.append(module)
        info = tmp_path / f"{module}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[edgecore.backends]\n{backend_id} = {module}\n")
        text = textwrap.dedent(source).format(name=name, backend_id=hook_id or backend_id, library=library)
        (tmp_path / f"{module}.py").write_text(text)
        return module

    for known in ("_registered", "_loaded"):  # what other tests have defined in this process
        monkeypatch.setattr(registry, known, {})
    yield add
    for module in modules:
        sys.modules.pop(module, None)
