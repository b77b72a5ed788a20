"""The committed SPIR-V: it belongs to the sources. And what the tool that compiles it says about mistakes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SHADERS = Path(__file__).parents[2] / "native" / "shaders"
pytest.importorskip("tomllib", reason="the tool needs Python 3.11")

SHADER = '#version 450\n#include "part.glsl"\nvoid main() {}\n'
needs_glslc = pytest.mark.skipif(shutil.which("glslc") is None, reason="glslc is not installed")


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The tool as a module. Its name is also that of a package which other tests may import."""
    names = ("build", "later_glslc", "third_party")
    monkeypatch.syspath_prepend(str(SHADERS))
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    import build  # native/shaders/build.py

    yield build
    for name in names:
        del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a shader of two variants and one that is excluded."""
    (tmp_path / "fill.comp").write_text(SHADER)
    (tmp_path / "part.glsl").write_text("layout(local_size_x = 1) in;\n")
    table = '[fill]\nDTYPE = ["f32", "i32"]\nOP = ["a", "b"]\nexclude = [{OP = "b"}]\n'
    (tmp_path / "variants.toml").write_text(table)
    return tmp_path


@pytest.mark.parametrize("check", ["--hashes", pytest.param("--check", marks=pytest.mark.full)])
def test_the_committed_files_are_those_of_the_sources(check: str) -> None:
    """To fix a failure, run `make shaders`. With --check and the compiler of the manifest, all bytes are compared."""
    done = subprocess.run([sys.executable, str(SHADERS / "build.py"), check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_names_of_the_variants_are_those_that_are_embedded(tool: ModuleType) -> None:
    names = list(tool.read_variants(SHADERS))
    assert names == sorted(path.stem for path in (SHADERS / "spirv").glob("*.spv"))
    assert all(name.isidentifier() and name.islower() for name in names)  # CMake makes C++ names of them


@pytest.mark.full
@pytest.mark.skipif(shutil.which("spirv-val") is None, reason="spirv-val is not installed")
def test_spirv_is_valid(tool: ModuleType) -> None:
    for name, variant in tool.read_variants(SHADERS).items():
        if variant.compiler == "later":  # bookworm's spirv-val does not know its extensions either
            continue
        command = ["spirv-val", "--target-env", variant.target, str(SHADERS / "spirv" / f"{name}.spv")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"


def test_every_combination_is_a_variant_unless_excluded(tool: ModuleType, folder: Path) -> None:
    variants = tool.read_variants(folder)
    assert list(variants) == ["fill_f32_a", "fill_i32_a"]
    assert variants["fill_f32_a"].defines == ("DTYPE=f32", "OP=a", "DTYPE_f32=1", "OP_a=1")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", r"no table \[fill\] for fill\.comp"),
        ("[fill]\n[other]\n", r"a table \[other\], but other\.comp does not exist"),
        ('[fill]\nDTYPE = "f32"\n', "DTYPE is neither one of exclude"),
        ('[fill]\nDTYPE = ["F32"]\n', "words of small letters"),
        ('[fill]\nDTYPE = ["f32"]\nexclude = [{DTYPE = "f16"}]\n', "which matches no variant"),
        ('[fill]\ncompiler = "newest"\n', "one of glslc, later"),
        ("[fill]\noptions = 1\n", "options is no list"),
        ('[fill]\nA = ["a", "a_b"]\nB = ["b_c", "c"]\n', "fill_a_b_c is the name of a variant of fill.comp and of"),
    ],
)
def test_mistakes_in_the_table_are_named(tool: ModuleType, folder: Path, table: str, message: str) -> None:
    (folder / "variants.toml").write_text(table)
    with pytest.raises(tool.ShaderError, match=message):
        tool.read_variants(folder)


@needs_glslc
def test_only_what_changed_is_compiled(tool: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed() -> str:
        tool.build(folder)
        return capsys.readouterr().out

    assert printed() == "shaders: 2 variants, 2 compiled, 0 files removed\n"
    assert printed() == "shaders: 2 variants, 0 compiled, 0 files removed\n"
    assert tool.check(folder) == []
    (folder / "part.glsl").write_text("layout(local_size_x = 2) in;\n")
    assert tool.check(folder)[0].startswith("fill_f32_a: fill.comp, an include, or the table")
    assert "2 compiled" in printed()
    (folder / "spirv" / "fill_i32_a.spv").write_bytes(b"damaged")
    assert tool.check(folder) == ["fill_i32_a.spv: missing or damaged"]
    assert "1 compiled" in printed()
    (folder / "variants.toml").write_text('[fill]\nDTYPE = ["f32"]\nOP = ["a"]\n')
    wrong = ["fill_i32_a: in the manifest, but not in variants.toml", "fill_i32_a.spv: no variant has this name"]
    assert tool.check(folder) == wrong
    assert printed() == "shaders: 1 variants, 0 compiled, 1 files removed\n"


@needs_glslc
def test_bytes_of_another_compiler_are_found(tool: ModuleType, folder: Path) -> None:
    tool.build(folder)
    path, manifest = folder / "spirv/fill_f32_a.spv", folder / "spirv/manifest.json"
    path.write_bytes(path.read_bytes() + bytes(4))
    assert tool.check(folder, compiles=False) == ["fill_f32_a.spv: missing or damaged"]
    content = json.loads(manifest.read_text())
    content["variants"]["fill_f32_a"]["spirv"] = tool.file_hash(path)
    manifest.write_text(json.dumps(content))
    assert tool.check(folder) == ["fill_f32_a.spv: other bytes than the compiler makes"]
    assert tool.check(folder, compiles=False) == []
    content["compilers"]["glslc"] = "shaderc 1"
    manifest.write_text(json.dumps(content))
    assert tool.check(folder) == []  # without that compiler, only the hashes can be compared


@needs_glslc
def test_a_shader_that_does_not_compile_is_an_error_with_the_line(tool: ModuleType, folder: Path) -> None:
    (folder / "fill.comp").write_text(SHADER.replace("{}", "{ x = 1; }"))
    with pytest.raises(tool.ShaderError, match=r"2 of 2 variants do not compile(.|\n)*fill\.comp:3: error"):
        tool.build(folder)


def test_a_damaged_manifest_is_one_sentence(tool: ModuleType, folder: Path) -> None:
    (folder / "spirv").mkdir()
    (folder / "spirv" / "manifest.json").write_text("<<<<<<<")
    with pytest.raises(tool.ShaderError, match=r"manifest\.json is damaged .* delete it and run `make shaders`"):
        tool.check(folder)


COOPERATIVE = """#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
layout(local_size_x = 32) in;
layout(binding = 0) buffer Data { float data[]; };
void main() {
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sum;
  coopMatLoad(sum, data, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(sum + sum, data, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
}
"""


def test_the_later_compiler_knows_cooperative_matrices(tool: ModuleType, folder: Path) -> None:
    if not tool.later_glslc.folder().is_dir():
        pytest.skip("native/shaders/later_glslc.py has not fetched the later compiler on this machine")
    (folder / "fill.comp").write_text(COOPERATIVE)
    (folder / "variants.toml").write_text('[fill]\ncompiler = "later"\n')
    tool.build(folder)
    assert b"SPV_KHR_cooperative_matrix" in (folder / "spirv" / "fill.spv").read_bytes()
    assert tool.check(folder) == []
