"""Configuration of the documentation site; `make docs` builds it into `build/docs/html`.

The pages are the Markdown files of this folder, and some READMEs that they include. Links from a page to a file of the
repository that is no page lead to `EDGECORE_SOURCE_URL`, by default to the clone that the site was built from.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from docutils.nodes import Element
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

import edgecore

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

project = "edgecore"
author = "the edgecore authors"
copyright = "the edgecore authors, Apache-2.0"
version = release = edgecore.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "breathe"]
html_theme = "furo"
html_title = f"edgecore {release}"
html_copy_source = False
html_show_sourcelink = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Docstrings are written with Markdown's single backticks, which are reStructuredText's default role.
default_role = "code"
autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # an `Attributes:` section beside documented fields would describe them twice

breathe_projects = {"edgecore": str(ROOT / "build" / "docs" / "doxygen" / "xml")}
breathe_default_project = "edgecore"
breathe_show_include = False
breathe_domain_by_extension = {"h": "cpp", "hpp": "cpp"}
breathe_domain_by_file_pattern = {"*/abi.h": "c", "*/backend.h": "c", "*/kernel.h": "c"}

# Each page of headers opens the namespace again, and C repeats a struct's name in its typedef.
suppress_warnings = ["duplicate_declaration.cpp", "duplicate_declaration.c"]
# References without a target here: to the C and C++ libraries, to private C++ types, and from Python annotations to
# types that have no page. All others must be found.
nitpick_ignore_regex = [
    ("cpp:identifier", r"(u?int\d+_t|UINT\d+_MAX|s?size_t|off_t|pread|va_list|std|.*::@\d+|EDGECORE_\w+)"),
    ("cpp:identifier", r"(ProgramTables|DataTables|DeviceMemory|State|ScalarType(::k\w+)?)"),
    ("c:identifier", r"(u?int\d+_t|size_t|.*@\d+)"),
    ("py:class", r".*"),
]

PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "examples.md",
    "plugins/edgecore-xnnpack/README.md": "xnnpack.md",
    "plugins/edgecore-openvino/README.md": "openvino.md",
    "plugins/edgecore-vulkan/README.md": "vulkan.md",
    "plugins/edgecore-ethosu/README.md": "ethosu.md",
    "plugins/edgecore-qnn/README.md": "qnn.md",
    "plugins/edgecore-vgf/README.md": "vgf.md",
    "plugins/edgecore-coreml/README.md": "coreml.md",
}
"""The page that shows a file from outside of this folder; pages of a backend's folder `docs` are added below."""

for page in ROOT.glob("plugins/edgecore-*/docs/*.md"):
    name = f"{page.parts[-3].removeprefix('edgecore-')}-{page.name}"
    if (DOCS / name).is_file():
        PAGES[page.relative_to(ROOT).as_posix()] = name

SOURCE_URL = os.environ.get("EDGECORE_SOURCE_URL", ROOT.as_uri())
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)\s#]*)(#[^)\s]*)?(?=\))")


def _rewrite_links(text: str, folder: Path, page_folder: Path) -> str:
    """Return `text`, from a file in `folder`, with links that hold on a page in `page_folder`."""

    def target(match: re.Match[str]) -> str:
        path, anchor = match.group(1), match.group(2) or ""
        file = (folder / path).resolve()
        if not path or not file.is_relative_to(ROOT):
            return match.group(0)
        inside = file.relative_to(ROOT).as_posix()
        if inside in PAGES:
            file = DOCS / PAGES[inside]
        elif not file.is_relative_to(DOCS):
            return f"{SOURCE_URL}/{inside}{anchor}"
        return os.path.relpath(file, page_folder) + anchor

    return _LINK.sub(target, text)


def _read_page(app: Sphinx, docname: str, content: list[str]) -> None:
    folder = (DOCS / docname).parent
    content[0] = _rewrite_links(content[0], folder, folder)


def _read_included(app: Sphinx, path: Path, docname: str, content: list[str]) -> None:
    content[0] = _rewrite_links(content[0], (DOCS / path).parent, (DOCS / docname).parent)


def _resolve_elsewhere(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, text: Element
) -> Element | None:
    """Find a type under its public name, where an annotation names its own module, or in C, where C++ uses it."""
    domain, target = node.get("refdomain"), node.get("reftarget", "")
    if domain == "cpp" and target.startswith("edgecore_"):
        found = env.domains["c"].get_objects()
    elif domain == "py" and node.get("reftype") == "class":
        found = env.domains["py"].get_objects()
    else:
        return None
    name = target.rsplit(".", 1)[-1]
    for full_name, _, _, page, anchor, _ in found:
        if full_name.rsplit(".", 1)[-1] == name:
            return make_refnode(app.builder, node["refdoc"], page, anchor, text, full_name)
    return None


def setup(app: Sphinx) -> None:
    """Register the rewriting of links and the search for names."""
    app.connect("missing-reference", _resolve_elsewhere)
    app.connect("source-read", _read_page)
    app.connect("include-read", _read_included)
