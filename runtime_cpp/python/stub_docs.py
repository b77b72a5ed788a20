"""Write a C++ header with the docstrings of the Python module's stub, as constants such as ``kMethodStart``.

CMake runs ``python3 stub_docs.py STUB HEADER``: ``help()`` shows the same texts as an editor that reads the stub.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

HEADER = """\
#ifndef EDGECORE_PYTHON_DOCS_H_
#define EDGECORE_PYTHON_DOCS_H_

namespace edgecore::python::docs {{

{constants}
}}  // namespace edgecore::python::docs

#endif  // EDGECORE_PYTHON_DOCS_H_
"""


def docstrings(body: list[ast.stmt], owner: str = "k") -> Iterator[tuple[str, str]]:
    """Yield the name of the constant and the docstring of each documented class, method, property and function."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            words = node.name.split("_")
            name = owner + "".join(word[:1].upper() + word[1:] for word in words)
            text = ast.get_docstring(node)
            if text:
                yield name, text
            if isinstance(node, ast.ClassDef):
                yield from docstrings(node.body, name)


def main() -> None:
    """Write the header; the arguments are the stub's path and the header's path."""
    stub, header = map(Path, sys.argv[1:])
    texts = docstrings(ast.parse(stub.read_text(encoding="utf-8")).body)
    constants = "".join(f'constexpr const char *{name} = R"doc({text})doc";\n' for name, text in texts)
    header.write_text(HEADER.format(constants=constants), encoding="utf-8")


if __name__ == "__main__":
    main()
