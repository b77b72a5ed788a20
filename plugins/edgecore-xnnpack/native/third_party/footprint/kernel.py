"""Translate the kernels in a source file of XNNPACK to functions that record the bytes they access."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from footprint.intrinsics import CONSTANTS
from footprint.memory import Memory, lanes, vector_of_words, vector_part
from footprint.nodes import is_address_or_count
from footprint.source import TOKEN, Expression, NotUnderstood, Parser, Type, is_access, preprocess, size_of
from footprint.writer import Writer


class Source:
    """A source file of kernels as compiled for one architecture, with XNNPACK's vector headers that it includes."""

    def __init__(self, root: Path, path: Path, defined: dict[str, int]) -> None:
        self.defined = defined
        self.text = preprocess(path.read_text(errors="replace"), self.macro)
        self.simd: dict[str, int] = {}
        self.constants = dict(CONSTANTS)
        self.helpers: dict[str, list[tuple[Type, str]]] = {}
        self.pure: set[str] = set()
        for name, value in re.findall(r"^\s*#\s*define\s+(\w+)\s+(\d+)\s*$", self.text, re.M):
            self.constants[name] = int(value)
        self.namespace: dict[str, Any] = {
            "lanes": lanes,
            "vector_part": vector_part,
            "vector_of_words": vector_of_words,
        }
        self.tables = self.static_tables(self.text)
        for header in self.headers(root, path.read_text(errors="replace")):
            self.add_header(header)
        self.add_helpers(r"\bstatic\s+(?:inline|XNN_INLINE)\s+\w+\s+(\w+)\s*\(", self.text)

    def macro(self, name: str) -> int:
        return self.defined.get(name, 0)

    def headers(self, root: Path, text: str) -> list[str]:
        """Return the vector headers that `text` includes, each after the headers that it includes itself."""
        headers: list[str] = []
        for name in re.findall(r'#include\s*"(xnnpack/simd/[\w-]+\.h)"', text):
            raw = (root / "src" / name).read_text()
            headers += [*self.headers(root, raw), preprocess(raw, self.macro)]
        return headers

    def add_header(self, header: str) -> None:
        """Add the vector types, constants, and load and store functions of a vector header."""
        self.tables += self.static_tables(header)
        for base, name in re.findall(r"typedef\s+(\w+)\s+(xnn_simd_\w+_t)\s*;", header):
            self.simd[name] = size_of((base, 0), self.simd)
        for name, text in re.findall(r"^\s*#\s*define\s+((?:xnn|XNN)_(?:simd|SIMD)_\w+)\s+(.+)$", header, re.M):
            tokens = TOKEN.findall(text)
            self.constants[name] = eval(Writer(self, [], []).value(Parser(tokens).expression())[0], {})
        self.add_helpers(r"\b(xnn_(?:load|store)\w*)\s*\([^()]*\)\s*(?:XNN_\w+\s*)*\{", header)

    def add_helpers(self, pattern: str, text: str) -> None:
        """Translate the functions in `text` whose signature matches `pattern`.

        A function that accesses memory becomes a helper, any other function is pure. The functions are translated in
        the order of the file, because a function may call earlier functions.
        """
        for name in re.findall(pattern, text):
            parameters, body = self.function(name, text)
            code = Writer(self, parameters, body).text()
            if "M." in code or "helper_" in code:
                self.helpers[name] = parameters
                exec(code.replace("def kernel(", f"def helper_{name}("), self.namespace)
            else:
                self.pure.add(name)

    def is_access(self, name: str) -> bool:
        return name in self.helpers or is_access(name)

    def static_tables(self, text: str) -> list[Expression]:
        """Parse the declarations of static arrays outside functions: tables of masks."""
        declarations: list[Expression] = []
        for declaration in re.findall(
            r"^(?:XNN_ALIGN\(\d+\) )?static (?:XNN_ALIGN\(\d+\) )?const \w+ \w+\[[^;]*;", text, re.M
        ):
            declarations += Parser(TOKEN.findall(declaration)).statement()
        return declarations

    def function(self, name: str, text: str) -> tuple[list[tuple[Type, str]], list[Expression]]:
        """Parse a function in `text`; returns its parameters, and its body with the static tables that it uses."""
        head = re.search(rf"\b{name}\s*\(([^{{}};]*?)\)\s*(?:XNN_\w+\s*)*\{{", text)
        if head is None:
            raise NotUnderstood(f"{name} is not defined in its file")
        parameters: list[tuple[Type, str]] = []
        for part in re.sub(r"\[[^\]]*\]", " [ ", head[1]).split(","):
            parser = Parser([*TOKEN.findall(part), "", ""])
            base, depth = parser.type()
            parameters.append(((base, depth + part.count("[")), parser.take()))
        depth, end = 1, head.end()
        for brace in re.finditer(r"[{}]", text[head.end() :]):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                end += brace.end()
                break
        body = re.sub(r"^\s*#.*$", "", text[head.end() - 1 : end], flags=re.M)
        tables = [table for table in self.tables if table[2] in body]
        return parameters, [*tables, *Parser(TOKEN.findall(body), frozenset(self.helpers)).block()]

    def kernel(self, name: str) -> Kernel:
        parameters, body = self.function(name, self.text)
        code = Writer(self, parameters, body).text()
        return Kernel(name, parameters, code, self.namespace)

    def arguments_of(self, node: Expression) -> tuple[Expression | None, list[Expression]]:
        """Return the mask of an access, if it has one, and the arguments that determine its address and size."""
        name, arguments = node[1], node[2]
        if name in self.helpers:
            return None, [a for a, (kind, _) in zip(arguments, self.helpers[name]) if is_address_or_count(kind)]
        if name in ("memcpy", "_tile_loadd", "_tile_stored"):
            return None, arguments
        if name == "memset":
            return None, [arguments[0], arguments[2]]
        if "_maskz_" in name:
            return arguments[0], [arguments[1]]
        if re.search(r"_maskload_|_maskstore_|_mask_\w*store", name):
            return arguments[1], [arguments[0]]
        if "_mask_" in name:
            return arguments[1], [arguments[2]]
        if name.startswith(("_mm_loadl_pi", "_mm_loadh_pi")):
            return None, [arguments[1]]
        return None, arguments[: 2 if "indexed" in name else 1]


@dataclass
class Kernel:
    """A kernel's address arithmetic as a Python function, to be called with the buffers of a `Memory`."""

    name: str
    parameters: list[tuple[Type, str]]
    code: str
    namespace: dict[str, Any]

    def __post_init__(self) -> None:
        self.globals = dict(self.namespace)
        exec(compile(self.code, self.name, "exec"), self.globals)

    def run(self, memory: Memory, arguments: dict[str, int], fields: dict[str, int]) -> None:
        """Call the kernel; `fields` has the members of its parameter structs that addresses depend on."""

        def field_of(path: str) -> int:
            if path not in fields:
                raise NotUnderstood(f"the parameter {path}")
            return fields[path]

        for space in (self.globals, self.namespace):
            space.update(M=memory, F=field_of)
        self.globals["kernel"](*(arguments[name] for _, name in self.parameters))
