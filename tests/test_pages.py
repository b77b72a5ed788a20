"""The pages of the documentation: their code runs, their links lead somewhere, their lines are short."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import NOT_WRITTEN_BY_HAND, ROOT, Block, blocks, markdown, name_of, pages

LONGEST_LINE = 120
GENERATED_ROWS = ("| `aten.", "| `quantized_decomposed.", "| `edgecore")  # of tables that are printed from code
GENERATED_PAGE = "special-values.md"  # its tables are written by a test of the backend
LANGUAGES = {"python", "sh"}
RUN_ELSEWHERE = {
    "docs/backends.md": "tests/native/test_new_backend.py runs its commands",
    "examples/custom-op/README.md": "tests/native/test_custom_op.py builds, installs and runs it",
    "examples/device-run/README.md": "tests/native/test_firmware.py builds and runs it",
    "examples/firmware/README.md": "tests/native/test_firmware.py builds and runs it",
    "examples/hello-backend/README.md": "tests/native/test_new_backend.py builds the package",
    "plugins/edgecore-coreml/README.md": "the package's own test runs its example",
    "plugins/edgecore-ethosu/README.md": "the package's own test runs its example",
    "plugins/edgecore-openvino/README.md": "the package's own test runs its example",
    "plugins/edgecore-qnn/README.md": "the package's own test runs its example",
    "plugins/edgecore-tosa/README.md": "the package's own test runs its example",
    "plugins/edgecore-vgf/README.md": "the package's own test runs its example",
    "plugins/edgecore-vgf/docs/quantization.md": "the package's own test runs its example",
    "plugins/edgecore-vulkan/README.md": "the package's own test runs its example",
}
WITH_CODE = [
    page
    for page in pages()
    if name_of(page) not in RUN_ELSEWHERE and any(block.language in LANGUAGES for block in blocks(page))
]


def run_in_shell(block: Block) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-eu", "-c", block.code],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, f"line {block.line}: {done.stdout[-3000:]}"


def run_page(page: Path) -> dict[str, object]:
    """Run the blocks of a page in order, the Python ones in one namespace, in the current directory.

    A block `text FILE` shows the content of a file that the blocks before it have written.
    """
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks(page):
        if block.language == "text" and block.flags:
            assert block.code == Path(block.flags[0]).read_text(), f"line {block.line} shows another text"
        if block.reason is not None or block.language not in LANGUAGES:
            continue
        if block.language == "python":
            # Empty lines before it, so that a traceback has the line of the page.
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), namespace)
        else:
            run_in_shell(block)
    return namespace


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=() if name_of(page) == "README.md" else pytest.mark.slow)
        for page in WITH_CODE
    ],
)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("edgecore_xnnpack")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    run_page(page)
    if name_of(page) == "README.md":
        check_that_running_needs_no_torch(page)


WITH_CPP = [page for page in pages() if any(block.language == "cpp" and block.hidden for block in blocks(page))]


@pytest.mark.parametrize("page", WITH_CPP, ids=name_of)
def test_the_cpp_code_of_a_page_compiles(page: Path, tmp_path: Path) -> None:
    source = []
    for index, block in enumerate(block for block in blocks(page) if block.language == "cpp" and block.reason is None):
        lines = f'#line {block.line} "{page.name}"\n{block.code}'
        body = f"edgecore::Status block_{index}() {{\n{lines}\nreturn edgecore::Status();\n}}\n"
        source.append(lines if block.hidden else body)
    (tmp_path / "page.cpp").write_text("\n".join(source))
    include = subprocess.check_output([sys.executable, "-m", "edgecore.plugin", "--include-dir"], text=True).strip()
    command = [os.environ.get("CXX", "c++"), "-std=c++17", "-fsyntax-only", f"-I{include}", tmp_path / "page.cpp"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]


def check_that_running_needs_no_torch(page: Path) -> None:
    """Run the second block of the page, which loads what the first one wrote, in a process of its own."""
    running = [block for block in blocks(page) if block.language == "python"][1]
    check = "\nimport sys; assert 'torch' not in sys.modules; assert y.shape == (1, 10)"
    done = subprocess.run([sys.executable, "-c", running.code + check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_block_that_is_not_run_says_why() -> None:
    skipped = [(name_of(page), block) for page in pages() for block in blocks(page) if block.reason is not None]
    assert [f"{name}:{block.line}" for name, block in skipped if len(block.reason.split()) < 3] == []


def test_links_between_files_lead_somewhere() -> None:
    broken = []
    for page in markdown():
        text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        targets = re.findall(r"(?<!\!)\[[^\]]*\]\((?!\w+:)([^)#\s]+)", text)
        broken += [f"{name_of(page)}: {target}" for target in targets if not (page.parent / target).exists()]
    assert broken == []


def test_lines_of_prose_and_tables_are_short() -> None:
    long_lines = []
    for page in markdown():
        in_code = False
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if line.lstrip().startswith("```"):
                in_code = not in_code
            generated = line.startswith("| `" if page.name == GENERATED_PAGE else GENERATED_ROWS)
            if not in_code and len(line) > LONGEST_LINE and not generated:
                long_lines.append(f"{name_of(page)}:{number}: {len(line)} characters")
    assert long_lines == []


def test_pages_that_are_not_checked_exist() -> None:
    for name in [*NOT_WRITTEN_BY_HAND, *RUN_ELSEWHERE]:
        assert (ROOT / name).is_file(), name


def flattened(text: str) -> str:
    """Source text with the pieces of a message joined: what a program inserts between them becomes a space."""
    text = re.sub(r'"\s*\n\s*[rf]*"', "", text)  # adjacent literals
    return re.sub(r'",[^"\n]*?,?\s*"', " ", text)  # C++: "pieces", value, "of a message"


def test_each_sentence_in_troubleshooting_is_still_in_the_sources() -> None:
    folders = ("src/edgecore", "runtime_cpp")
    sources = [path for folder in folders for kind in ("*.py", "*.cpp", "*.h*") for path in (ROOT / folder).rglob(kind)]
    program = "\n".join(flattened(path.read_text(encoding="utf-8")) for path in sources if "tests" not in path.parts)
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    sentences = re.findall(r"^### `(.*)`$", page, re.MULTILINE)
    assert len(sentences) > 20
    parts = {part.strip() for sentence in sentences for part in sentence.split("…")}
    assert sorted(part for part in parts if part not in program) == []


def test_the_glossary_has_fifty_terms_at_most() -> None:
    rows = re.findall(
        r"^\| (?!term|-)([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    terms = [row.strip("` .").lower() for row in rows]
    assert 20 < len(terms) <= 50
    assert terms == sorted(terms)


def test_the_page_of_packages_has_the_roles_of_the_docstrings():
    command = [sys.executable, ROOT / "tools" / "make_package_table.py", "--check"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0, outcome.stderr


def test_the_architecture_fits_on_one_page_and_names_what_exists():
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    assert len(text.splitlines()) <= 110
    files = {place: path_of(place) for place in re.findall(r"`([a-z_]+/[\w/-]+\.(?:py|cpp|js))`", text)}
    assert len(files) > 15
    assert [place for place, path in files.items() if not path.is_file()] == []
    named = [(names, place) for names, place in re.findall(r"((?:`[\w.]+`,? )+)in `([^`]+)`", text) if place in files]
    for names, place in named:
        code = files[place].read_text("utf-8")
        for name in re.findall(r"\w+(?=`)", names):
            assert re.search(rf"\b{name}\b", code), f"{name} is not in {place}"


def path_of(place):
    """Return the file that ARCHITECTURE.md names by its path from the root or from `src/edgecore`."""
    return ROOT / place if (ROOT / place).is_file() else ROOT / "src" / "edgecore" / place
