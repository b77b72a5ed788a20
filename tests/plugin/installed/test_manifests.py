"""Options for loading that a package gives, and manifests: how C++ finds the same libraries, with the same options."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import edgecore
from edgecore import native_program
from edgecore.errors import BackendBroken, BackendError
from edgecore.plugin import registry
from edgecore.plugin.installed.manifests import manifest, write_manifests

EDGECORE_RUN = Path(sys.executable).with_name("edgecore-run")
needs_edgecore_run = pytest.mark.skipif(
    not EDGECORE_RUN.is_file(), reason="the wheel of edgecore is not installed here"
)


def first_output(program, **options):
    given = {"toy": options} if options else None
    return edgecore.load(program, options=given).forward(memoryview(bytes(24)).cast("f", (2, 3))).tolist()[0][0]


def run(*arguments, command=(EDGECORE_RUN,), **environment):
    environment = {key: value for key, value in os.environ.items() if key != "EDGECORE_BACKEND_PATH"} | environment
    return subprocess.run(
        [*map(str, command), *map(str, arguments)], capture_output=True, text=True, check=False, env=environment
    )


def test_a_package_gives_options_under_those_of_the_user(toy_program, toy_library, install_toy):
    install_toy(repr(str(toy_library)), "{'offset': 5}")
    assert first_output(toy_program) == 5
    assert first_output(toy_program, offset=7) == 7
    assert first_output(toy_program, together=1) == 5


def test_a_package_whose_options_raise_is_broken(toy_program, toy_library, install_toy):
    install_toy(repr(str(toy_library)), "1 / 0")
    with pytest.raises(BackendBroken, match="backend 'toy' cannot be found: division by zero"):
        edgecore.load(toy_program)
    with pytest.raises(BackendError, match="division by zero"):
        manifest(registry.find("ToyBackend"))


@pytest.fixture
def folder(tmp_path, toy_library, install_toy):
    """Manifests of what is installed here, of the toy backend among them."""
    install_toy(repr(str(toy_library)), "{'offset': 5}")
    written, _ = write_manifests(tmp_path / "some where" / "backends")
    path = next(path for path in written if path.name == "toy.json")
    assert set(path.parent.iterdir()) == set(written)
    return path.parent


def test_a_manifest_says_what_the_library_was_built_for(folder, toy_library):
    content = json.loads((folder / "toy.json").read_text())
    assert content == {
        "abi": content["abi"],
        "backend_id": "ToyBackend",
        "library": str(toy_library),
        "options": {"offset": 5},
    }
    assert content["abi"].startswith("0.")


def test_an_option_that_a_manifest_cannot_hold_is_an_error(toy_library, install_toy):
    install_toy(repr(str(toy_library)), "{'offset': 0.5}")
    with pytest.raises(BackendError, match="option offset as float"):
        manifest(registry.find("ToyBackend"))


def test_a_library_that_does_not_load_gets_no_manifest(tmp_path, install_toy):
    install_toy(repr("/no/library.so"))
    _, problems = write_manifests(tmp_path)
    assert any("/no/library.so does not load" in problem and "doctor toy" in problem for problem in problems)
    assert not (tmp_path / "toy.json").exists()


@needs_edgecore_run
def test_edgecore_run_finds_a_backend_by_its_manifest(folder, toy_program, tmp_path):
    by_option = run(toy_program, "--backend-path", folder)
    by_variable = run(toy_program, EDGECORE_BACKEND_PATH=f"{tmp_path}:{folder}")
    for done in (by_option, by_variable):
        assert done.returncode == 0 and "min 5 max 5" in done.stdout, done.stderr
    (tmp_path / "empty").mkdir()
    done = run(toy_program, "--backend-path", tmp_path / "empty")
    assert done.returncode == 1
    assert f"No manifest of the backend 'ToyBackend' is in {tmp_path / 'empty'}." in done.stderr


@needs_edgecore_run
def test_edgecore_run_does_not_search_the_current_directory(folder, toy_program, monkeypatch):
    monkeypatch.chdir(folder)
    assert "needs backend 'ToyBackend'; give" in run(toy_program, EDGECORE_BACKEND_PATH="::").stderr
    assert "not given by an absolute path" in run(toy_program, EDGECORE_BACKEND_PATH=".").stderr
    assert "not given by an absolute path" in run(toy_program, "--backend-path", ".").stderr


@needs_edgecore_run
def test_edgecore_run_ignores_the_variable_with_the_rights_of_another_user(folder, toy_program, tmp_path):
    """A copy of edgecore-run that belongs to root and runs for nobody."""
    if os.getuid() != 0 or os.statvfs(tmp_path).f_flag & os.ST_NOSUID or shutil.which("patchelf") is None:
        pytest.skip("only root can make a setuid program, only with patchelf, and only where one runs")
    public = Path("/tmp") / f"edgecore-setuid-{os.getpid()}"
    public.mkdir(mode=0o755)
    try:
        for source, name in (
            (native_program.PROGRAM, "run"),
            (toy_program, "toy.pte"),
            (folder / "toy.json", "toy.json"),
        ):
            shutil.copy(source, public / name)
            (public / name).chmod(0o755)
        # A program with the rights of another user does not look for libraries beside itself, which anybody could put there.
        library = public / "lib"
        shutil.copytree(native_program.LIBRARY_FOLDER, library)
        subprocess.run(["patchelf", "--set-rpath", library, public / "run"], check=True)
        as_nobody = [sys.executable, "-c", "import os, sys; os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])"]
        (public / "run").chmod(0o4755)
        done = run(public / "toy.pte", command=[*as_nobody, public / "run"], EDGECORE_BACKEND_PATH=str(public))
        assert "needs backend 'ToyBackend'; give its library" in done.stderr
        (public / "run").chmod(0o755)
        done = run(public / "toy.pte", command=[*as_nobody, public / "run"], EDGECORE_BACKEND_PATH=str(public))
        assert "needs backend 'ToyBackend'" not in done.stderr
    finally:
        shutil.rmtree(public)
