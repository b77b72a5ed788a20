"""Kernels of a file of XNNPACK's, as functions that note which bytes they touch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from footprint.intrinsics import CONSTANTS
from footprint.memory import Memory, half, lanes, words
from footprint.nodes import is_place
from footprint.source import TOKEN, Expression, NotUnderstood, Parser, Type, is_access, preprocess, size_of
from footprint.writer import Writer


class Source:
    """A file of kernels as it is compiled for one architecture, with the vector header that it includes."""

    def __init__(self, root: Path, path: Path, defined: dict[str, int]) -> None:
        self.defined = defined
        self.text = preprocess(path.read_text(errors="replace"), self.macro)
        self.simd: dict[str, int] = {}
        self.constants = dict(CONSTANTS)
        self.helpers: dict[str, list[tuple[Type, str]]] = {}
        self.pure: set[str] = set()
        for name, value in re.findall(r"^\s*#\s*define\s+(\w+)\s+(\d+)\s*$", self.text, re.M):
            self.constants[name] = int(value)
        self.namespace: dict[str, Any] = {"lanes": lanes, "half": half, "words": words}
        self.tables = self.static_tables(self.text)
        for header in self.headers(root, path.read_text(errors="replace")):
            self.take(header)
        self.add_helpers(r"\bstatic\s+(?:inline|XNN_INLINE)\s+\w+\s+(\w+)\s*\(", self.text)

    def macro(self, name: str) -> int:
        return self.defined.get(name, 0)

    def headers(self, root: Path, text: str) -> list[str]:
        """The vector headers included, those that they include first."""
        found: list[str] = []
        for name in re.findall(r'#include\s*"(xnnpack/simd/[\w-]+\.h)"', text):
            raw = (root / "src" / name).read_text()
            found += [*self.headers(root, raw), preprocess(raw, self.macro)]
        return found

    def take(self, header: str) -> None:
        """A vector header's sizes, and its loads and stores as functions."""
        self.tables += self.static_tables(header)
        for base, name in re.findall(r"typedef\s+(\w+)\s+(xnn_simd_\w+_t)\s*;", header):
            self.simd[name] = size_of((base, 0), self.simd)
        for name, text in re.findall(r"^\s*#\s*define\s+((?:xnn|XNN)_(?:simd|SIMD)_\w+)\s+(.+)$", header, re.M):
            tokens = TOKEN.findall(text)
            self.constants[name] = eval(Writer(self, [], []).value(Parser(tokens).expression())[0], {})
        self.add_helpers(r"\b(xnn_(?:load|store)\w*)\s*\([^()]*\)\s*(?:XNN_\w+\s*)*\{", header)

    def add_helpers(self, pattern: str, text: str) -> None:
        """Functions that kernels call, in their order: those that access memory, and those that do not."""
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
        """Declarations of the arrays that stand outside functions."""
        found: list[Expression] = []
        for declaration in re.findall(
            r"^(?:XNN_ALIGN\(\d+\) )?static (?:XNN_ALIGN\(\d+\) )?const \w+ \w+\[[^;]*;", text, re.M
        ):
            found += Parser(TOKEN.findall(declaration)).statement()
        return found

    def function(self, name: str, text: str) -> tuple[list[tuple[Type, str]], list[Expression]]:
        """The parameters and the body of a function of `text`."""
        found = re.search(rf"\b{name}\s*\(([^{{}};]*?)\)\s*(?:XNN_\w+\s*)*\{{", text)
        if found is None:
            raise NotUnderstood(f"{name} is not defined in its file")
        parameters: list[tuple[Type, str]] = []
        for part in re.sub(r"\[[^\]]*\]", " [ ", found[1]).split(","):
            parser = Parser([*TOKEN.findall(part), "", ""])
            base, depth = parser.type()
            parameters.append(((base, depth + part.count("[")), parser.take()))
        depth, at = 1, found.end()
        for brace in re.finditer(r"[{}]", text[found.end() :]):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                at += brace.end()
                break
        body = re.sub(r"^\s*#.*$", "", text[found.end() - 1 : at], flags=re.M)
        tables = [table for table in self.tables if table[2] in body]
        return parameters, [*tables, *Parser(TOKEN.findall(body), frozenset(self.helpers)).block()]

    def kernel(self, name: str) -> Kernel:
        parameters, body = self.function(name, self.text)
        code = Writer(self, parameters, body).text()
        return Kernel(name, parameters, code, self.namespace)

    def arguments_of(self, node: Expression) -> tuple[Expression | None, list[Expression]]:
        """The mask and the arguments that make the address and the size of an access."""
        name, arguments = node[1], node[2]
        if name in self.helpers:
            return None, [a for a, (kind, _) in zip(arguments, self.helpers[name]) if is_place(kind)]
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
    """A kernel's arithmetic of addresses, to be called with buffers of a `Memory`."""

    name: str
    parameters: list[tuple[Type, str]]
    code: str
    namespace: dict[str, Any]

    def __post_init__(self) -> None:
        self.globals = dict(self.namespace)
        exec(compile(self.code, self.name, "exec"), self.globals)

    def run(self, memory: Memory, arguments: dict[str, int], fields: dict[str, int]) -> None:
        """Call the kernel; `fields` are the members of its parameter structs that addresses depend on."""

        def field_of(path: str) -> int:
            if path not in fields:
                raise NotUnderstood(f"the parameter {path}")
            return fields[path]

        for space in (self.globals, self.namespace):
            space.update(M=memory, F=field_of)
        self.globals["kernel"](*(arguments[name] for _, name in self.parameters))
