"""Backend packages in the installations that people have: fresh environments and real wheels."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from fresh_environment import Environment, library, sources, table, wheel

from edgecore import format as fmt
from edgecore.plugin import registry


@pytest.fixture
def env(tmp_path):
    return Environment(tmp_path / "venv")


@pytest.fixture
def wheels(tmp_path):
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


def test_a_backend_installed_from_a_wheel_is_found(env, wheels):
    assert "BackendNotFound" in env.find()
    env.install(wheel(wheels, "edgecore-acme", sources()))
    assert env.find() == "version 1.0"


@pytest.mark.parametrize("layout", ["src", "flat"])
def test_a_backend_installed_as_editable_is_found(env, tmp_path, layout):
    """Wheels as PEP 660 has them: a path in a .pth file for src, a finder on sys.meta_path for other layouts."""
    pytest.importorskip("setuptools")
    project = tmp_path / "project"
    code = project / "src" if layout == "src" else project
    for name, text in sources().items():
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_text(text)
    (project / "other").mkdir()
    (project / "other" / "__init__.py").touch()
    packages = '[tool.setuptools.packages.find]\nwhere = ["src"]' if layout == "src" else "[tool.setuptools]"
    if layout == "flat":
        packages += '\npackages = ["edgecore_acme"]'
    (project / "pyproject.toml").write_text(f"""
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "edgecore-acme"
version = "1.0"
[project.entry-points."edgecore.backends"]
AcmeBackend = "edgecore_acme"
{packages}
""")
    build = f"import setuptools.build_meta as b; b.build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=project, check=True, capture_output=True)
    (built,) = tmp_path.glob("*.whl")
    env.install(built)
    assert bool(list(env.site.glob("__editable__*finder.py"))) == (layout == "flat")
    assert env.find() == "version 1.0"
    (code / "edgecore_acme" / "__init__.py").write_text(sources(version="edited")["edgecore_acme/__init__.py"])
    assert env.find() == "version edited"


def test_a_backend_in_a_zip_file_is_found(env, wheels):
    """A wheel on the path is a zip file that Python imports from; a library in it cannot be loaded."""
    path = wheel(wheels, "edgecore-acme", sources() | {"edgecore_acme/lib/libacme.so": b""})
    env.variables["PYTHONPATH"] = str(path)
    assert env.find() == "version 1.0"
    status, text = env.doctor("acme")
    assert status == 1
    assert f"lies in the archive {path}" in text
    assert "fix: pip install --force-reinstall --no-deps edgecore-acme" in text


def test_the_backend_in_the_first_folder_on_the_path_is_found(env, wheels, tmp_path):
    """PYTHONPATH goes before site-packages; doctor says which one is used."""
    env.install(wheel(wheels, "edgecore-acme", sources()))
    other = env.install(wheel(wheels, "edgecore-acme", sources(version="2.0"), "2.0"), tmp_path / "other")
    env.variables["PYTHONPATH"] = str(other)
    assert env.find() == "version 2.0"
    _, text = env.doctor("acme")
    assert f"ok      one version: version 2.0 in {other} is used; it hides 1.0 in {env.site}" in text


def test_two_versions_in_one_folder_are_reported_as_an_interrupted_installation(env, wheels):
    """An interrupted upgrade leaves both versions behind."""
    env.install(wheel(wheels, "edgecore-acme", sources()))
    env.install(wheel(wheels, "edgecore-acme", sources(version="2.0"), "2.0"))
    status, text = env.doctor("acme")
    assert status == 1
    assert "an installation was interrupted" in text
    assert "fix: pip uninstall --yes edgecore-acme" in text


def test_a_package_of_the_environment_goes_before_one_of_the_user(wheels, tmp_path):
    env = Environment(tmp_path / "venv", system_site_packages=True)
    env.variables["PYTHONUSERBASE"] = str(tmp_path / "user")
    user = Path(env.say("import site; print(json.dumps(site.getusersitepackages()))"))
    env.install(wheel(wheels, "edgecore-acme", sources()), user)
    assert env.find() == "version 1.0"
    env.install(wheel(wheels, "edgecore-acme", sources(version="2.0"), "2.0"))
    assert env.find() == "version 2.0"


def test_two_packages_for_one_backend_are_an_error_that_names_both(env, wheels):
    env.install(wheel(wheels, "edgecore-acme", sources()))
    env.install(wheel(wheels, "acme-fork", sources("acme_fork", "of the fork")))
    assert "BackendAmbiguous: backend 'AcmeBackend' is provided by acme-fork and edgecore-acme" in env.find()
    status, text = env.doctor("acme")
    assert status == 1
    assert "another package provides AcmeBackend too" in text
    assert "fix: export EDGECORE_PROVIDER_ACMEBACKEND=acme-fork" in text
    code = "from edgecore.plugin import registry as r\nprint(json.dumps(r.find('AcmeBackend', %s).summary))"
    assert env.say(code % {"AcmeBackend": "acme-fork"}) == "version of the fork"
    env.variables["EDGECORE_PROVIDER_ACMEBACKEND"] = "edgecore-acme"
    assert env.find() == "version 1.0"
    status, text = env.doctor("acme")
    assert "another package" not in text


BAD = {
    "raise": ("raise OSError('no licence')", "OSError: no licence"),
    "lacks": ("import acme_driver", "No module named 'acme_driver'"),
    "exit": ("import os; os._exit(3)", "ends the process with status 3"),
    "die": ("import os; os.abort()", "ends the process with signal 6"),
    "hang": ("import time; time.sleep(600)", "does not end within 2 s"),
    "ask": ("input()", "EOFError"),
}


@pytest.mark.slow
def test_packages_that_misbehave_when_imported_harm_no_other_and_are_named(env, wheels):
    """They harm nobody but themselves, and doctor names each."""
    env.install(wheel(wheels, "edgecore-acme", sources()))
    for name, (code, _) in BAD.items():
        backend_id = f"{name.capitalize()}Backend"
        files = sources(f"edgecore_{name}", before=code + "\n", name=name, backend_id=backend_id)
        env.install(wheel(wheels, f"edgecore-{name}", files, backend_id=backend_id))
    loud = sources("edgecore_loud", before="import os; print('hello'); os.system('echo of C')\n", name="loud")
    env.install(wheel(wheels, "edgecore-loud", loud | {}, backend_id="LoudBackend"))
    text = (env.site / "edgecore_loud" / "__init__.py").read_text().replace("AcmeBackend", "LoudBackend")
    (env.site / "edgecore_loud" / "__init__.py").write_text(text)

    assert env.find() == "version 1.0"
    by_name = "from edgecore.plugin import registry as r\nprint(json.dumps(r.find_by_name('acme').summary))"
    assert env.say(by_name) == "version 1.0"
    env.variables["EDGECORE_BACKENDS_DENY"] = "edgecore-xnnpack"  # of the outer environment: it would import torch
    status, text = env.doctor("--seconds", "2")
    assert status == 1
    for name, (_, problem) in BAD.items():
        _, _, section = text.partition(f"\n{name.capitalize()}Backend (")
        finding = section.split("\n")[1]
        assert "problem import and hook" in finding
        assert problem in finding
    assert "fix: pip install edgecore-lacks\n" in text
    assert "fix: pip install --force-reinstall --no-deps edgecore-raise\n" in text
    assert "quiet import: importing edgecore_loud prints 'hello\\nof C'" in text


SLEEP = "import time; time.sleep(600)\n"
HANGS = {
    "hook": (SLEEP, "", "importing edgecore_hook and calling its hook does not end within 2 s"),
    "library": (
        "",
        f"def native_library():\n    {SLEEP}",
        "calling native_library() of edgecore_library does not end within 2 s",
    ),
    "check": ("", "", "calling check() of edgecore_check.compiler:Compiler does not end within 2 s"),
}


@pytest.mark.slow
def test_packages_that_hang_at_any_step_are_reported_after_a_time(env, wheels):
    """Every command ends, and names the package; so does `edgecore.backends()`."""
    env.install(wheel(wheels, "edgecore-acme", sources()))
    for name, (before, after, _) in HANGS.items():
        backend_id = f"{name.capitalize()}Backend"
        files = sources(f"edgecore_{name}", before=before, name=name, backend_id=backend_id)
        files[f"edgecore_{name}/__init__.py"] += after
        if name == "check":
            files[f"edgecore_{name}/compiler.py"] = f"class Compiler:\n    def check(self):\n        {SLEEP}"
        env.install(wheel(wheels, f"edgecore-{name}", files, backend_id=backend_id))
    kernels = {"kernels_hang/__init__.py": SLEEP}
    env.install(wheel(wheels, "kernels-hang", kernels, backend_id="my_ops", group="edgecore.kernels"))
    env.variables["EDGECORE_BACKENDS_DENY"] = "edgecore-xnnpack,edgecore-openvino,edgecore-vulkan"

    status, text = env.doctor("--seconds", "2")
    assert status == 1
    for name, (_, _, problem) in HANGS.items():
        section = re.search(rf"Backend, edgecore-{name} 1\.0\)\n(( .*\n)*)", text)[1]
        assert problem in section, text
    assert (
        "fix: export EDGECORE_BACKENDS_DENY=edgecore-xnnpack,edgecore-openvino,edgecore-vulkan,edgecore-hook\n" in text
    )
    assert (
        "fix: export EDGECORE_BACKENDS_DENY=edgecore-xnnpack,edgecore-openvino,edgecore-vulkan,edgecore-library\n"
        in text
    )
    assert 'fix: pip install --upgrade "edgecore-check[compile]"\n' in text
    sentence = (
        "the kernels 'my_ops' of kernels-hang 1.0 cannot be loaded: importing kernels_hang and asking for its library"
    )
    assert f"{sentence} does not end within 2 s" in text
    assert "fix: pip install --upgrade kernels-hang\n" in text

    done = env.run("-m", "edgecore", "backends", "--json", "--seconds", "2")
    rows = {row["distribution"]: row for row in json.loads(done.stdout)}
    assert {name: rows[f"edgecore-{name}"]["state"] for name in HANGS} == {
        "hook": "broken", "library": "ok", "check": "ok"
    }  # fmt: skip
    assert rows["edgecore-library"]["library"] is None
    assert str(rows["edgecore-acme"]["library"]).endswith("libacme.so")
    code = """
import edgecore, warnings
with warnings.catch_warnings(record=True) as caught:
    states = [(row.name, row.state) for row in edgecore.backends(seconds=2) if row.distribution == "edgecore-hook"]
print(json.dumps([states, [str(row.message) for row in caught]]))
"""
    states, (warning,) = env.say(code)
    assert states == [["", "broken"]]
    assert warning.startswith("backend 'HookBackend' of edgecore-hook 1.0 is broken: importing edgecore_hook")

    (env.site / "edgecore_acme" / "compiler.py").write_text(SLEEP)
    env.variables = {"EDGECORE_BACKENDS_ALLOW": "edgecore-acme"}
    done = env.run("-m", "edgecore", "backends", "acme", "--seconds", "1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "edgecore: importing edgecore_acme.compiler:Compiler does not end within 3 s\n"


def test_listing_survives_what_packages_print(env, wheels):
    env.install(wheel(wheels, "edgecore-acme", sources(before="print('hello')\n")))
    done = env.run("-m", "edgecore", "backends", "--json")
    (row,) = [row for row in json.loads(done.stdout) if row["name"] == "acme"]
    assert row["state"] == "ok"


def test_metadata_without_a_module_are_reported_with_the_command_that_mends_them(env, wheels):
    """Metadata without the module."""
    path = wheel(wheels, "edgecore-acme", {"edgecore_acme/__init__.py": ""})
    env.install(path)
    (env.site / "edgecore_acme" / "__init__.py").unlink()
    (env.site / "edgecore_acme").rmdir()
    _, text = env.doctor("acme")
    assert "No module named 'edgecore_acme'" in text
    assert "fix: pip install --force-reinstall --no-deps edgecore-acme" in text


def test_environment_variables_allow_and_deny_packages(env, wheels):
    env.install(wheel(wheels, "edgecore-acme", sources(before="raise OSError\n")))
    for variable, value in (("EDGECORE_BACKENDS_DENY", "edgecore-acme"), ("EDGECORE_BACKENDS_ALLOW", "xnnpack,other")):
        env.variables = {variable: value}
        assert f"is disabled by the environment variable {variable}" in env.find()
    status, text = env.doctor("acme")
    assert status == 0
    assert "to change: unset EDGECORE_BACKENDS_ALLOW" in text


def test_nothing_comes_from_the_current_directory(env, wheels, tmp_path):
    """Neither a package, nor its metadata, nor a library."""
    here = env.install(wheel(wheels, "edgecore-acme", sources(version="of the current directory")), tmp_path / "here")
    (here / "libacme.so").write_bytes(b"")
    assert "BackendNotFound" in env.find(cwd=here)
    env.install(wheel(wheels, "edgecore-acme", sources()))
    assert env.find(cwd=here) == "version 1.0"
    code = """
import sys
from edgecore.plugin import registry
library = registry.find("AcmeBackend").native_library()
print(json.dumps([library, sys.path[0]]))
"""
    library, first = env.say(code, cwd=here)
    assert Path(library).is_relative_to(env.site)
    assert first == "", "sys.path is as it was"


REPORT = """
import json, sys
from edgecore.errors import BackendError
from edgecore.plugin import registry
before = list(sys.path)
try:
    found = registry.find("AcmeBackend").summary
except BackendError as error:
    found = type(error).__name__
assert sys.path == before
print(json.dumps(found))
"""


def test_the_current_directory_counts_only_where_it_is_named_on_the_path(env, wheels, tmp_path):
    """The interpreter puts it on the path for `-m` and empty parts of PYTHONPATH; where it is named it counts."""
    here = env.install(wheel(wheels, "edgecore-acme", sources(version="of the current directory")), tmp_path / "here")
    (here / "application.py").write_text(REPORT)
    (env.site / "report.py").write_text(REPORT)
    (here / "edgecore_beside").mkdir()  # a folder that would hide an installed package of that name

    def find(*arguments: object, path: str = "", cwd: Path = here) -> str:
        env.variables = {"PYTHONPATH": path} if path else {}
        done = env.run(*arguments, cwd=cwd)
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout.splitlines()[-1]))

    named = "version of the current directory"
    assert find("-m", "report") == "BackendNotFound"
    assert find("-m", "application") == "BackendNotFound"
    assert find("-m", "report", path=f":{tmp_path}") == "BackendNotFound"
    assert find(env.site / "report.py", path=f":{tmp_path}") == "BackendNotFound"
    assert find("-m", "report", path=str(here)) == named
    assert find("-m", "report", path=".") == named
    assert find("-c", REPORT, path=f":{here}") == named
    assert find("application.py") == named, "the folder of the script"
    assert find(here / "application.py", cwd=tmp_path) == named
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as file:
        file.writestr("__main__.py", REPORT)
    assert find(tmp_path / "app.pyz") == "BackendNotFound"
    done = env.run("-m", "edgecore", "backends", "--json", cwd=here)
    assert "edgecore-acme" not in {row["distribution"] for row in json.loads(done.stdout)}

    env.install(wheel(wheels, "edgecore-acme", sources()))
    for command in (("-m", "report"), ("-m", "application"), ("-c", REPORT)):
        assert find(*command) == "version 1.0"
    (env.site / "edgecore_acme").rename(env.folder / "edgecore_acme")
    assert find("-m", "report") == "BackendBroken", "the folder of that name is not imported either"
    (env.site / "acme.pth").write_text(str(here))
    assert find("-m", "report") == named.replace("1.0", ""), "a .pth file names it"


LIBRARIES = {
    "well": ("AcmeBackend", ""),
    "future": ("FutureBackend", "was built for interface 9.9, this edgecore has "),
    "old": ("OldBackend", "was built for interface 0.2, this edgecore has "),
    "lacking": ("LackingBackend", "it needs libacme_driver.so.3, which the system's loader does not find ("),
    "cudnn": ("CudnnBackend", "it needs libcudnn_acme.so.9, which the system's loader does not find ("),
    "foreign": ("ForeignBackend", "is for riscv64, and this Python runs on "),
    "symbol": (
        "SymbolBackend",
        "none of its libraries has the symbol acme_of_next_year: their versions do not match (",
    ),
    "gone": ("GoneBackend", "libacme.so does not exist"),
}


OLD_KERNELS = """
#include "edgecore/kernel.h"
static edgecore_kernel_library table = {{sizeof(edgecore_kernel_library), 0, 2}};
const edgecore_kernel_library *edgecore_kernels_v0(void) { return &table; }
"""
KERNELS_HOOK = """
from pathlib import Path
def library():
    return Path(__file__).parent / "libold.so"
"""


def test_libraries_that_do_not_load_are_explained(env, wheels, tmp_path):
    """Doctor explains the loader's message, and names the command that mends the package."""
    good = library(tmp_path / "well.so", table())
    for driver in ("libacme_driver.so.3", "libcudnn_acme.so.9"):
        library(tmp_path / driver, "int driver;", f"-Wl,-soname,{driver}")
    foreign = good[:18] + (243).to_bytes(2, "little") + good[20:]
    libraries = {
        "well": good,
        "future": library(tmp_path / "future.so", table("9", "9")),
        "old": library(tmp_path / "old.so", table("0", "2", "edgecore-old")),
        "lacking": library(tmp_path / "lacking.so", table(), "-Wl,--no-as-needed", tmp_path / "libacme_driver.so.3"),
        "cudnn": library(tmp_path / "cudnn.so", table(), "-Wl,--no-as-needed", tmp_path / "libcudnn_acme.so.9"),
        "foreign": foreign,
        "symbol": library(
            tmp_path / "symbol.so",
            table() + "\nextern int acme_of_next_year(void); int (*f)(void) = acme_of_next_year;",
        ),
    }
    for name, (backend_id, _) in LIBRARIES.items():
        files = sources(f"edgecore_{name}", name=name, backend_id=backend_id)
        if name in libraries:
            files[f"edgecore_{name}/lib/libacme.so"] = libraries[name]
        env.install(wheel(wheels, f"edgecore-{name}", files, backend_id=backend_id))
    old = library(tmp_path / "old_kernels.so", OLD_KERNELS)
    files = {"old_kernels/__init__.py": KERNELS_HOOK, "old_kernels/libold.so": old}
    env.install(
        wheel(wheels, "old-kernels", files, backend_id="old_ops", group="edgecore.kernels", attribute=":library")
    )
    env.variables["EDGECORE_BACKENDS_DENY"] = "edgecore-xnnpack"
    status, text = env.doctor()
    assert status == 1
    assert "libold.so was built for interface 0.2, this edgecore has " in text
    assert "fix: pip install --upgrade old-kernels\n" in text
    for name, (backend_id, problem) in LIBRARIES.items():
        section = re.search(rf"^{name} \({backend_id}.*\n(( .*\n)*)", text, re.MULTILINE)[1]
        row = section.partition("native library: ")[2].partition("\n")[0]
        assert problem in row
        assert ("fix" in section) == (name != "well"), section
    assert "fix: pip install --upgrade edgecore\n" in text
    assert "fix: pip install --upgrade edgecore-old\n" in text
    assert "fix: pip install nvidia-cudnn-cu12\n" in text
    assert "apt-file search libacme_driver.so.3\n" in text or "dnf provides '*/libacme_driver.so.3'\n" in text
    assert "fix: pip install --force-reinstall --no-deps edgecore-foreign\n" in text
    for name, sentence in (
        (
            "future",
            r"was built for version 9\.9 of the native interface; this edgecore has 0\.\d+: update the package edgecore\.",
        ),
        (
            "old",
            r"was built for version 0\.2 of the native interface; this edgecore has 0\.\d+: update the package edgecore-old\.",
        ),
        ("lacking", "`edgecore doctor lacking` says what is missing"),
    ):
        path = tmp_path / f"{name}.pte"
        path.write_bytes(a_file(LIBRARIES[name][0]))
        error = env.run("-c", f"import edgecore; edgecore.load({str(path)!r})").stderr.splitlines()[-1]
        assert re.search(sentence, error), error


def a_file(backend_id: str) -> bytes:
    """A program of one delegate."""
    tensors = [
        fmt.Tensor(fmt.ScalarType.FLOAT, sizes=[2], dim_order=[0], allocation_info=fmt.AllocationDetails.at(1, 16 * i))
        for i in range(2)
    ]
    plan = fmt.ExecutionPlan(
        name="forward",
        values=[fmt.EValue(tensor) for tensor in tensors],
        inputs=[0],
        outputs=[1],
        chains=[fmt.Chain(inputs=[], outputs=[], instructions=[fmt.Instruction(fmt.DelegateCall(0, [0, 1]))])],
        delegates=[fmt.BackendDelegate(backend_id, fmt.BackendDelegateDataReference(index=0))],
        non_const_buffer_sizes=[0, 32],
    )
    return fmt.write_pte(fmt.PteFile(fmt.Program(execution_plan=[plan]), delegate_blobs=[b"blob"]))


class TestWithoutMetadata:
    """Frozen applications keep modules, not the metadata of their packages."""

    APPLICATION = """
import edgecore_acme
from edgecore.plugin import register, registry
register(edgecore_acme)
print(registry.find("AcmeBackend").summary, registry.find_by_name("acme").name)
"""

    def test_an_application_in_an_archive_registers_its_backend(self, env, tmp_path):
        path = tmp_path / "app.pyz"
        with zipfile.ZipFile(path, "w") as file:
            for name, text in (sources() | {"__main__.py": self.APPLICATION}).items():
                file.writestr(name, text)
        done = env.run(path)
        assert done.stdout == "version 1.0 acme\n", done.stderr

    def test_a_registered_backend_goes_before_an_installed_one(self, env, wheels, tmp_path):
        env.install(wheel(wheels, "acme-fork", sources("acme_fork", "of the fork")))
        for name, text in (sources() | {"app.py": self.APPLICATION}).items():
            (tmp_path / "app" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "app" / name).write_text(text)
        assert env.run(tmp_path / "app" / "app.py").stdout == "version 1.0 acme\n"

    def test_a_backend_that_a_frozen_application_did_not_register_is_reported_with_the_remedy(self, monkeypatch):
        monkeypatch.setattr(sys, "frozen", True, raising=False)
        monkeypatch.setattr(registry, "scan", list)
        with pytest.raises(
            registry.BackendNotFound, match=r"import edgecore_openvino and pass it to edgecore\.plugin\.register"
        ):
            registry.find("OpenvinoBackend")

    def test_a_registered_module_without_the_hook_is_an_error(self):
        with pytest.raises(registry.BackendError, match="implements no hook edgecore_backends"):
            registry.register(json)
