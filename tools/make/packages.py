"""Steps that set up `.venv`, build wheels and install them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from plugins import Plugin
from steps import ROOT, Step, run, run_build

VENV_PYTHON = ROOT / ".venv/bin/python"
PYTHON = os.environ.get("PYTHON", "python3")
TORCH = os.environ.get("TORCH", "torch==2.13.0")
TORCHVISION = "torchvision==0.28.0"
EXECUTORCH = "executorch==1.5.1"
NEWEST = os.environ.get("NEWEST", "torch==2.14.1 torchvision==0.29.1").split()
PACKAGE_FILES = ("pyproject.toml", "README.md", "LICENSE", "licenses", "src")
# The files of the core with which a plugin's wheel is built; no other file of the core has an effect on it.
HEADERS = (*(f"runtime_cpp/include/edgecore/{name}.h" for name in ("abi", "backend", "kernel")), "cmake")
TEST_PACKAGES = (
    *("clang-format-16", "clang-tidy-16", "libclang-rt-16-dev", "abigail-tools", "libgtest-dev", "libgmock-dev"),
    *("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "libstdc++-arm-none-eabi-newlib", "qemu-system-arm"),
    *("g++-aarch64-linux-gnu", "qemu-user"),
    *("mesa-vulkan-drivers", "libvulkan1", "vulkan-tools", "vulkan-validationlayers", "glslc", "spirv-tools"),
)


def pip(*arguments: str | Path, check: bool = True) -> bool:
    return run(VENV_PYTHON, "-m", "pip", "--disable-pip-version-check", *arguments, check=check)


def install(*requirements: str | Path, check: bool = True) -> bool:
    return pip("install", "--quiet", *requirements, check=check)


def system_packages(*names: str) -> None:
    run("tools/system_packages.sh", PYTHON, *names)


def setup_steps() -> dict[str, Step]:
    """Return the steps that prepare this machine and `.venv`, except the steps of edgecore and its plugins."""

    def group(name: str) -> Step:
        return Step(f"{name} tools", lambda: install("--group", name), inputs=("pyproject.toml",), after=("venv",))

    return {
        "system": Step("system packages", system_packages, inputs=("tools/system_packages.sh",)),
        "test-system": Step(
            "system packages of tests (2 GB: compilers for Arm, emulators, Mesa)",
            lambda: system_packages(*TEST_PACKAGES),
            inputs=("tools/system_packages.sh", "tools/make/packages.py"),
            needs=("system",),
        ),
        "venv": Step("virtual environment .venv", make_venv, after=("system",)),
        # Install an exact version: for a range, pip may choose a build for GPUs.
        "torch": Step(f"{TORCH} (a large download)", lambda: install(TORCH), after=("venv",)),
        "torchvision": Step("torchvision", install_torchvision, needs=("torch",)),
        "sklearn": Step("scikit-learn", lambda: install("scikit-learn"), needs=("torch",)),
        "ray": Step("Ray (80 MB)", lambda: install("edgecore[ray]"), inputs=("pyproject.toml",), after=("core",)),
        "test": Step(
            "test tools and executorch, the peer",
            install_test_tools,
            inputs=("pyproject.toml", "tools/system_packages.sh"),
            needs=("test-system", "torchvision", "sklearn"),
        ),
        "peers": Step("ONNX Runtime and OpenVINO", install_peers, after=("venv",)),
        "docs": Step(
            "tools of the documentation",
            install_docs_tools,
            inputs=("pyproject.toml", "tools/system_packages.sh"),
            after=("venv",),
        ),
        "torch-newest": Step(f"{NEWEST[0]} beside .venv (6 GB)", make_torch_newest, after=("venv",)),
        "openvino-2025": Step("OpenVINO 2025 for executorch (50 MB)", install_openvino_2025, after=("openvino",)),
        **{name: group(name) for name in ("wheel", "lint", "zig", "publish", "release")},
    }


def make_venv() -> None:
    if not VENV_PYTHON.exists():
        run(PYTHON, "-m", "venv", ".venv")
        install("--upgrade", "pip>=25.1")


def install_torchvision() -> None:
    install("--no-deps", TORCHVISION)
    install("pillow")


def install_test_tools() -> None:
    system_packages("chromium", "chromium-driver")  # tests show pages of reports in Chromium
    install("--group", "test", EXECUTORCH, "transformers", "expecttest")
    install("--no-deps", "ai-edge-model-explorer")  # without the other viewers' adapters: 100 MB
    install("--no-deps", "onnx2torch")  # without another torchvision
    install("dacite", "flask", "portpicker", "requests", "termcolor", "watchdog")


def install_peers() -> None:
    install("onnxruntime", "onnx", "onnxscript", "openvino", "nncf")


def install_docs_tools() -> None:
    if not run(VENV_PYTHON, "-c", "import sys; sys.exit(sys.version_info < (3, 11))", check=False):
        sys.exit("Sphinx needs Python 3.11: PYTHON=python3.11 make docs")
    system_packages("doxygen")
    install("--group", "docs")


def make_torch_newest() -> None:
    """Make a virtual environment of the newest torch alone; it takes all other packages from `.venv`."""
    python, link = (
        "build/torch-newest/bin/python",
        "(site / 'base.pth').write_text(str(Path('.venv', *site.parts[-3:]).absolute()))",
    )
    run("rm", "-rf", "build/torch-newest")
    run(VENV_PYTHON, "-m", "venv", "build/torch-newest")
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *NEWEST)
    run(python, "-c", f"import sysconfig; from pathlib import Path; site = Path(sysconfig.get_path('purelib')); {link}")


def install_openvino_2025() -> None:
    """Install OpenVINO 2025 outside of `.venv`: the runtime of executorch 1.5.1 crashes with OpenVINO 2026."""
    target = "build/openvino-2025"
    run("rm", "-rf", target)
    if not install("--no-deps", "--target", target, "openvino>=2025.3,<2026", check=False):
        print("OpenVINO 2025 cannot be installed here; a test is skipped")


def core_step() -> Step:
    """Return the step that builds and installs the wheel of edgecore itself."""

    def commands() -> None:
        install_wheel(build_wheel("."))
        install("edgecore[compile]")

    return Step(
        "edgecore: wheel",
        commands,
        inputs=("src/edgecore", "cmake", "CMakeLists.txt", "pyproject.toml", "README.md"),
        sources=("runtime_cpp",),
        needs=("torch", "system"),
        after=("wheel",),
    )


def plugin_step(plugin: Plugin) -> Step:
    """Return the step that builds and installs the wheel of a plugin with what its tests need."""

    def commands() -> None:
        wheel = build_wheel(plugin.folder)
        extras = ",".join(("compile", *plugin.extras))
        groups = [word for group in plugin.groups for word in ("--group", f"{plugin.folder}/pyproject.toml:{group}")]
        if install(f"{wheel}[{extras}]", *groups, check=not plugin.optional):
            install_wheel(wheel)
        else:
            print(f"edgecore-{plugin.name} cannot be installed here; its tests are skipped")

    download = f" (downloads {plugin.download})" if plugin.download else ""
    return Step(
        f"edgecore-{plugin.name}: wheel{download}",
        commands,
        inputs=tuple(
            f"{plugin.folder}/{name}" for name in ("pyproject.toml", "README.md", "LICENSE", "licenses", "src")
        )
        + HEADERS,
        sources=(f"{plugin.folder}/native", *plugin.sources),
        needs=("system", *plugin.needs),
        after=("core",),
    )


def build_wheel(folder: str) -> Path:
    """Build the wheel of a package into `dist`, in place of an older one. Return its path; in a dry run, a pattern.

    The build is not isolated, because in a new environment the compiler would get other paths each time, and all
    objects would be compiled again.
    """
    name = "edgecore" if folder == "." else Path(folder).name.replace("-", "_")
    for old in (ROOT / "dist").glob(f"{name}-*.whl"):
        run("rm", old)
    options = ["--verbose", "--no-deps", "--no-build-isolation", "--wheel-dir", "dist"]
    run_build(VENV_PYTHON, "-m", "pip", "--disable-pip-version-check", "wheel", *options, f"./{folder}")
    return next((ROOT / "dist").glob(f"{name}-*.whl"), Path(f"dist/{name}-*.whl"))


def install_wheel(wheel: Path) -> None:
    install("--force-reinstall", "--no-deps", wheel)
