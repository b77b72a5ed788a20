#!/usr/bin/env python3
"""Compile the shaders of ``variants.toml`` to ``spirv/``, and describe them in ``spirv/manifest.json``.

    build.py            compile what changed, and remove what no variant names
    build.py --check    compare the manifest with sources and SPIR-V; compile again if the compiler is the manifest's
    build.py --hashes   the same, but compile nothing

SPIR-V is committed, so that a build of the package needs no compiler. Its bytes depend on the compiler's version: glslc
of Debian bookworm (shaderc 2023.2), or of trixie for shaders with ``compiler = "later"`` (``later_glslc.py``).
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import later_glslc
import tomllib

FOLDER = Path(__file__).resolve().parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
SETTINGS = {"exclude": list, "target": str, "options": list, "compiler": str}
COMPILERS = ("glslc", "later")


class ShaderError(Exception):
    """An error in a shader, a variant or a compiler; its text is a sentence for the developer."""


@dataclass(frozen=True)
class Variant:
    """A shader with one value for each of its keys. Holds everything on which the bytes of the SPIR-V depend."""

    name: str
    source: Path
    defines: tuple[str, ...]
    target: str
    options: tuple[str, ...]
    compiler: str

    def entry(self) -> dict[str, Any]:
        """Return the manifest's entry for this variant, without the hash of the SPIR-V."""
        options = [*(f"-D{define}" for define in self.defines), f"--target-env={self.target}", *self.options]
        return {
            "source": self.source.name,
            "sha256": source_hash(self.source),
            "compiler": self.compiler,
            "options": options,
        }


def source_hash(path: Path) -> str:
    """Return the SHA-256 of the text of a shader and of all files that it includes."""
    found = {path: path.read_text()}
    queue = [path]
    while queue:
        current = queue.pop()
        for name in INCLUDE.findall(found[current]):
            included = current.parent / name
            if not included.is_file():
                raise ShaderError(f"{current.name} includes {name}, which does not exist.")
            if included not in found:
                found[included] = included.read_text()
                queue.append(included)
    texts = [found.pop(path), *(found[key] for key in sorted(found))]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def read_variants(folder: Path) -> dict[str, Variant]:
    """Return the variants of ``variants.toml`` by name, in the order of names."""
    shaders = tomllib.loads((folder / "variants.toml").read_text())
    unlisted = sorted({path.stem for path in folder.glob("*.comp")} - set(shaders))
    if unlisted:
        raise ShaderError(f"variants.toml has no table [{unlisted[0]}] for {unlisted[0]}.comp.")
    found: dict[str, Variant] = {}
    for shader, table in shaders.items():
        for variant in variants_of(folder / f"{shader}.comp", table):
            if variant.name in found:
                other = found[variant.name].source.name
                raise ShaderError(f"{variant.name} is the name of a variant of {other} and of {variant.source.name}.")
            found[variant.name] = variant
    return dict(sorted(found.items()))


def variants_of(source: Path, table: dict[str, Any]) -> list[Variant]:
    """Return the variants of a table of ``variants.toml``."""
    if not source.is_file():
        raise ShaderError(f"variants.toml has a table [{source.stem}], but {source.name} does not exist.")
    keys = {key: value for key, value in table.items() if key not in SETTINGS}
    for key, value in table.items():
        if key in SETTINGS and not isinstance(value, SETTINGS[key]):
            raise ShaderError(f"[{source.stem}] {key} is no {SETTINGS[key].__name__}.")
    for key, values in keys.items():
        words = isinstance(values, list) and values and all(re.fullmatch(r"[a-z0-9_]+", str(word)) for word in values)
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", key) or not words:
            raise ShaderError(
                f"[{source.stem}] {key} is neither one of {', '.join(SETTINGS)} nor a key in capitals with a list of "
                "words of small letters and digits."
            )
    excluded = [{key: str(value) for key, value in rule.items()} for rule in table.get("exclude", [])]
    for rule in excluded:
        if any(value not in map(str, keys.get(key, [])) for key, value in rule.items()):
            raise ShaderError(f"[{source.stem}] exclude has {rule}, which matches no variant.")
    compiler = table.get("compiler", "glslc")
    if compiler not in COMPILERS:
        raise ShaderError(f"[{source.stem}] compiler is {compiler!r}; it must be one of {', '.join(COMPILERS)}.")
    variants = []
    for values in itertools.product(*keys.values()):
        chosen = dict(zip(keys, map(str, values), strict=True))
        if any(rule.items() <= chosen.items() for rule in excluded):
            continue
        defines = [f"{key}={value}" for key, value in chosen.items()]
        defines += [f"{key}_{value}=1" for key, value in chosen.items()]
        target = table.get("target", "vulkan1.1")
        name = "_".join([source.stem, *chosen.values()])
        variants.append(Variant(name, source, tuple(defines), target, tuple(table.get("options", [])), compiler))
    return variants


# ---- compilers


def compiler_command(compiler: str, fetch: bool) -> list[str] | None:
    """Return the command of a compiler; None if it is not installed. If ``fetch``, download the compiler "later"."""
    if compiler == "later":
        return later_glslc.command() if fetch or later_glslc.folder().is_dir() else None
    path = shutil.which("glslc")
    return [path] if path else None


def compiler_version(command: list[str]) -> str:
    """Return the versions of shaderc, SPIRV-Tools and glslang in one line."""
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    return "; ".join(line for line in done.stdout.splitlines() if line and not line.startswith("Target"))


def compile_all(variants: list[Variant], commands: dict[str, list[str]], into: Path) -> list[str]:
    """Compile ``variants`` in parallel, and return the messages of those that failed to compile."""

    def compile_one(variant: Variant) -> str:
        target = into / f"{variant.name}.spv"
        options = variant.entry()["options"]
        command = [*commands[variant.compiler], "-O", *options, str(variant.source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return f"{variant.name}:\n{done.stderr}" if done.returncode else ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [message for message in pool.map(compile_one, variants) if message]


# ---- the manifest


def read_manifest(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {"compilers": {}, "variants": {}}
    try:
        manifest: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:  # for example, the file has conflict markers of a merge
        raise ShaderError(f"{path.name} is damaged ({error}); delete it and run `make shaders`.") from error
    return manifest


def write_manifest(path: Path, compilers: dict[str, str], variants: dict[str, dict[str, Any]]) -> None:
    """Write the manifest with one line per variant, so that a merge shows which variants changed."""
    rows = [f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(variants.items())]
    text = f'{{\n  "compilers": {json.dumps(compilers)},\n  "variants": {{\n' + ",\n".join(rows) + "\n  }\n}\n"
    path.write_text(text)


def file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def build(folder: Path) -> None:
    """Compile the variants that changed, remove files without a variant, and write the manifest."""
    spirv = folder / "spirv"
    spirv.mkdir(exist_ok=True)
    variants = read_variants(folder)
    old = read_manifest(spirv / "manifest.json")
    commands: dict[str, list[str]] = {}
    versions: dict[str, str] = {}
    for compiler in sorted({variant.compiler for variant in variants.values()}):
        command = compiler_command(compiler, fetch=True)
        if command is None:
            raise ShaderError("glslc was not found; install it (apt-get install glslc).")
        commands[compiler], versions[compiler] = command, compiler_version(command)

    def changed(variant: Variant) -> bool:
        entry = {**variant.entry(), "spirv": file_hash(spirv / f"{variant.name}.spv")}
        compiler = variant.compiler
        return old["variants"].get(variant.name) != entry or old["compilers"].get(compiler) != versions[compiler]

    wanted = [variant for variant in variants.values() if changed(variant)]
    failures = compile_all(wanted, commands, spirv)
    if failures:
        raise ShaderError(f"{len(failures)} of {len(wanted)} variants do not compile.\n" + "\n".join(failures))
    stale = [path for path in spirv.glob("*.spv") if path.stem not in variants]
    for path in stale:
        path.unlink()
    entries = {
        name: {**variant.entry(), "spirv": file_hash(spirv / f"{name}.spv")} for name, variant in variants.items()
    }
    write_manifest(spirv / "manifest.json", versions, entries)
    print(f"shaders: {len(variants)} variants, {len(wanted)} compiled, {len(stale)} files removed")


def check(folder: Path, compiles: bool = True) -> list[str]:
    """Return the faults of ``spirv/``, one line for each wrong variant or file.

    With ``compiles`` all variants are compiled, which takes half a minute, to compare their bytes.
    """
    spirv = folder / "spirv"
    variants = read_variants(folder)
    manifest = read_manifest(spirv / "manifest.json")
    entries: dict[str, dict[str, Any]] = manifest["variants"]
    wrong = [f"{name}: not in the manifest" for name in variants if name not in entries]
    wrong += [f"{name}: in the manifest, but not in variants.toml" for name in entries if name not in variants]
    wrong += [f"{path.name}: no variant has this name" for path in spirv.glob("*.spv") if path.stem not in variants]
    for name, variant in variants.items():
        entry = dict(entries.get(name, {}))
        compiled = entry.pop("spirv", "")
        if entry and entry != variant.entry():
            wrong.append(f"{name}: {variant.source.name}, an include, or the table in variants.toml changed")
        elif entry and compiled != file_hash(spirv / f"{name}.spv"):
            wrong.append(f"{name}.spv: missing or damaged")
    return wrong if wrong or not compiles else recompile(folder, list(variants.values()), manifest["compilers"])


def recompile(folder: Path, variants: list[Variant], versions: dict[str, str]) -> list[str]:
    """Compile the variants whose compiler is installed in the version that the manifest names; compare the SPIR-V."""
    commands: dict[str, list[str]] = {}
    for compiler in COMPILERS:
        command = compiler_command(compiler, fetch=False)
        if command and compiler in versions and compiler_version(command) == versions[compiler]:
            commands[compiler] = command
    wanted = [variant for variant in variants if variant.compiler in commands]
    with tempfile.TemporaryDirectory(prefix="edgecore-shaders-") as name:
        wrong = compile_all(wanted, commands, Path(name))
        for variant in wanted:
            file = f"{variant.name}.spv"
            if file_hash(Path(name) / file) != file_hash(folder / "spirv" / file):
                wrong.append(f"{file}: other bytes than the compiler makes")
    print(f"shaders: compiled {len(wanted)} of {len(variants)} variants again")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile the shaders of variants.toml.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if spirv/ is not up to date")
    parser.add_argument("--hashes", action="store_true", help="as --check, without a compiler")
    arguments = parser.parse_args()
    try:
        if not (arguments.check or arguments.hashes):
            build(FOLDER)
            return 0
        wrong = check(FOLDER, compiles=not arguments.hashes)
        for line in wrong:
            print(line, file=sys.stderr)
        if wrong:
            print("error: spirv/ is not up to date; run `make shaders`.", file=sys.stderr)
        return 1 if wrong else 0
    except (ShaderError, later_glslc.FetchError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
