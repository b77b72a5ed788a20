"""Steps that build C++ with CMake, each in folders below `build`: tests, fuzzers, programs for emulated processors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from packages import PYTHON, system_packages
from plugins import Plugin
from steps import ROOT, Step, output_of, run, run_build

XNNPACK = "plugins/edgecore-xnnpack/native"
GET_XNNPACK = f"{XNNPACK}/third_party/get_xnnpack.py"
CORE = ("runtime_cpp", "cmake", "CMakeLists.txt", "CMakePresets.json", "pyproject.toml", "src/edgecore/format/schema")
SANITIZED = "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -gline-tables-only -DNDEBUG"
"""Options that compile in half the time of RelWithDebInfo's; the sanitizers' reports still name lines."""
ADDRESS_SANITIZER = (
    "-DCMAKE_CXX_FLAGS=-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all",
    SANITIZED,
)
THREAD_SANITIZER = "-DCMAKE_CXX_FLAGS=-fsanitize=thread", SANITIZED


@dataclass(frozen=True)
class Platform:
    """A processor that qemu emulates: `build/platforms/FOLDER` has `core` and `xnnpack`, whose programs tests run."""

    name: str
    folder: str
    toolchain: str
    core_targets: tuple[str, ...]
    packages: tuple[str, ...] = ()


PLATFORMS = [
    Platform("arm64", "aarch64", "aarch64-linux-gnu", ("edgecore_kernels_serve", "edgecore-run")),
    Platform("armv7", "armv7", "arm-linux-gnueabihf", ("edgecore-run",), packages=("g++-arm-linux-gnueabihf",)),
]


def native_steps(plugins: dict[str, Plugin]) -> dict[str, Step]:
    """Return the steps that build C++, except the steps of wheels."""
    tested = [plugin for plugin in plugins.values() if plugin.cpp_tests]
    schemas = tuple(f"{plugin.folder}/src/edgecore_{plugin.name}/schema" for plugin in tested)
    everything = (*CORE, *(f"{plugin.folder}/native" for plugin in tested), *schemas)
    xnnpack, vulkan = plugins["xnnpack"], plugins["vulkan"]
    xnnpack_and_core = (*CORE, XNNPACK, f"{xnnpack.folder}/src/edgecore_xnnpack/schema")
    xnnpack_built = ("test-system", "xnnpack-library")
    steps = {
        "xnnpack-library": Step(
            "XNNPACK (the first time it is compiled: one to two minutes)",
            get_xnnpack,
            (f"{XNNPACK}/third_party", f"{XNNPACK}/cpuinfo", "cmake/third_party.py"),
            needs=("system",),
        ),
        "upstream-tests": Step(
            "XNNPACK's own tests of its operators: build",
            build_upstream_tests,
            (f"{XNNPACK}/tests/upstream",),
            needs=xnnpack_built,
        ),
        "native-tests": Step("C++ tests: build", lambda: build_tests(tested), everything, needs=xnnpack_built),
        "fuzzers": Step("fuzzers of files: build, with address sanitizer", build_fuzzers, CORE, needs=("test-system",)),
        "addresses": Step(
            "C++ tests and fuzzers of plugins: build, with address sanitizer",
            lambda: build_with_address_sanitizer(tested),
            everything,
            needs=xnnpack_built,
        ),
        "threads": Step(
            "C++ tests of threads: build, with thread sanitizer",
            lambda: build_with_thread_sanitizer(xnnpack),
            xnnpack_and_core,
            needs=xnnpack_built,
        ),
        "vulkan-thread": Step(
            "C++ tests of edgecore-vulkan: build, with thread sanitizer",
            lambda: build_plugin(vulkan, "build/vulkan-thread", *THREAD_SANITIZER),
            (*CORE, f"{vulkan.folder}/native"),
            needs=("test-system",),
        ),
        "emulated": Step(
            "XNNPACK for every x86 processor: build (the first time some minutes)",
            lambda: build_emulated(xnnpack),
            xnnpack_and_core,
            needs=("test-system",),
        ),
    }
    for platform in PLATFORMS:
        steps[f"{platform.name}-core"] = Step(
            f"portable programs for {platform.toolchain}: build",
            lambda platform=platform: build_core_for(platform),
            CORE,
            needs=("test-system",),
        )
        steps[f"{platform.name}-xnnpack"] = Step(
            f"XNNPACK and the tests of its delegate for {platform.toolchain}: build (the first time some minutes)",
            lambda platform=platform: build_xnnpack_for(platform, xnnpack),
            xnnpack_and_core,
            needs=(f"{platform.name}-core",),
        )
    return steps


def cmake(
    source: str, build: str, *options: str, targets: Sequence[str] = (), build_type: str = "RelWithDebInfo"
) -> None:
    """Configure a CMake project, and build `targets`, or all targets if `targets` is empty."""
    run("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_BUILD_TYPE={build_type}", *options)
    run_build("cmake", "--build", build, *(("--target", *targets) if targets else ()))


def build_plugin(
    plugin: Plugin, build: str, *options: str, targets: Sequence[str] = (), build_type: str = "RelWithDebInfo"
) -> None:
    """Build the C++ tests of a plugin with the headers of this tree."""
    core = (f"-Dedgecore_DIR={ROOT}/cmake",)
    tests = f"-DEDGECORE_{plugin.name.upper()}_TESTS=ON"
    cmake(f"{plugin.folder}/native", build, *core, tests, *options, targets=targets, build_type=build_type)


def get_xnnpack() -> None:
    """Build XNNPACK in a cache outside of the tree, unless XNNPACK_DIR names an installed one."""
    if not os.environ.get("XNNPACK_DIR"):
        run(PYTHON, GET_XNNPACK)


def build_upstream_tests() -> None:
    sources = "build/xnnpack-sources"
    run(PYTHON, GET_XNNPACK, "--sources", sources)
    cmake(f"{XNNPACK}/tests/upstream", "build/xnnpack-upstream", f"-DSOURCES={ROOT}/{sources}")


def build_tests(plugins: list[Plugin]) -> None:
    """Build the C++ tests with the compiler options of the wheels, so that ccache has most of the objects."""
    options = "-DEDGECORE_BUILD_TESTS=ON", "-DEDGECORE_BUILD_TOOLS=ON"
    cmake(".", "build/test", *options, targets=("all", "edgecore_kernels_test"), build_type="Release")
    for plugin in plugins:
        build_plugin(plugin, f"build/test-{plugin.name}", build_type="Release")


def build_fuzzers() -> None:
    options = "-DEDGECORE_BUILD_TESTS=ON", "-DEDGECORE_BUILD_FUZZERS=ON", "-DEDGECORE_SANITIZE=address,undefined"
    cmake(".", "build/fuzz", *options, SANITIZED, targets=("edgecore_core_test", "edgecore_fuzzers"))


def build_with_address_sanitizer(plugins: list[Plugin]) -> None:
    for plugin in plugins:
        fuzzer = f"-DEDGECORE_{plugin.name.upper()}_FUZZ=ON"
        build_plugin(plugin, f"build/{plugin.name}-address", fuzzer, *ADDRESS_SANITIZER, targets=plugin.sanitized)


def build_with_thread_sanitizer(xnnpack: Plugin) -> None:
    options = "-DEDGECORE_BUILD_TESTS=ON", "-DEDGECORE_SANITIZE=thread", SANITIZED
    cmake(".", "build/threads", *options, targets=("host_test",))
    build_plugin(xnnpack, "build/xnnpack-thread", *THREAD_SANITIZER, targets=("edgecore_xnnpack_tests",))


def build_emulated(xnnpack: Plugin) -> None:
    """Build the C++ tests with XNNPACK's kernels for all x86 processors, compiled for any processor with AVX2."""
    library = output_of(PYTHON, GET_XNNPACK, "--emulated")
    build_plugin(xnnpack, "build/test-emulated", f"-DXNNPACK_DIR={library}")


def build_core_for(platform: Platform) -> None:
    if platform.packages:
        system_packages(*platform.packages)
    preset = f"linux-{platform.name}"
    run("cmake", "--preset", preset)
    run("cmake", "--build", f"build/{preset}", "--target", *platform.core_targets)
    folder = f"build/platforms/{platform.folder}"
    run("mkdir", "-p", folder)
    run("ln", "-sfn", f"../../linux-{platform.name}", f"{folder}/core")


def build_xnnpack_for(platform: Platform, xnnpack: Plugin) -> None:
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/{XNNPACK}/cmake/{platform.toolchain}.cmake"
    build_plugin(xnnpack, f"build/platforms/{platform.folder}/xnnpack", toolchain, build_type="Release")
