"""Expressions of C as expressions of Python, with addresses as numbers."""

from __future__ import annotations

import re
from typing import Protocol

from footprint.intrinsics import (
    KNOWN,
    LANES,
    MEMBERS,
    NEON,
    UNALIGNED,
    X86,
    X86_PARTS,
)
from footprint.nodes import find, is_place, variables
from footprint.source import Expression, NotUnderstood, Type, size_of

RESERVED = {"in", "is", "lambda", "not", "or", "and", "from", "min", "max"}


class Context(Protocol):
    """Facts of a source file that its expressions are evaluated with."""

    simd: dict[str, int]
    constants: dict[str, int]
    helpers: dict[str, list[tuple[Type, str]]]
    pure: set[str]

    def is_access(self, name: str) -> bool: ...

    def arguments_of(self, node: Expression) -> tuple[Expression | None, list[Expression]]: ...


class Values:
    """Translates expressions; `needed` are the variables that addresses, masks and conditions depend on."""

    def __init__(self, source: Context, types: dict[str, Type]) -> None:
        self.source, self.types = source, types
        self.rows: dict[str, Expression] = {}  # of arrays of arrays: the length of each
        self.structs: set[str] = set()  # of a tile's configuration
        self.needed: set[str] = set()

    @staticmethod
    def name(variable: str) -> str:
        return variable + "_" if variable in RESERVED else variable

    def holds_pointer(self, target: Expression) -> bool:
        """An element of an array of pointers."""
        depth = 0
        while target[0] == "element":
            target, depth = target[1], depth + 1
        return target[0] == "variable" and depth > 0 and self.types.get(target[1], ("", 0))[1] > depth

    def is_parameter(self, node: Expression) -> bool:
        """In a struct of parameters, or a part of a vector: fields of a fixed size."""
        members = find(node, {"member"})
        return bool(members) and not any(self.is_stored(member) for member in members)

    def is_noted(self, address: Expression) -> bool:
        """Not in `params`; nor in a table of the library, whose indices are masked and which holds all of them."""
        return not self.is_parameter(address) and not any(name.startswith("xnn_table_") for name in variables(address))

    def place(self, node: Expression) -> tuple[str, Type]:
        """The address of an lvalue and the type of what is there."""
        if node[0] == "unary" and node[1] == "*":
            code, (name, depth) = self.value(node[2])
            if not depth:
                raise NotUnderstood(f"* of {node[2]}")
            return code, (name, depth - 1)
        if (
            node[0] == "element"
            and node[1][0] == "element"
            and node[1][1][0] == "variable"
            and node[1][1][1] in self.rows
        ):
            variable = node[1][1][1]
            name, depth = self.types[variable]
            row = f"({self.value(node[1][2])[0]}) * ({self.value(self.rows[variable])[0]})"
            size = size_of((name, depth - 2), self.source.simd)
            return f"({self.name(variable)} + ({row} + {self.value(node[2])[0]}) * {size})", (name, depth - 2)
        if node[0] == "element":
            code, (name, depth) = self.value(node[1])
            if not depth:
                raise NotUnderstood(f"[] of {node[1]}")
            size = size_of((name, depth - 1), self.source.simd)
            return f"({code} + ({self.value(node[2])[0]}) * {size})", (name, depth - 1)
        if node[0] == "member" and self.is_stored(node):
            base, _ = self.place(node[1]) if node[1][0] == "element" else self.value(node[1])
            return f"({base} + {self.offset(node)})", ("float", 0)
        raise NotUnderstood(f"the address of {node}")

    def offset(self, node: Expression) -> int:
        base = node[1][1] if node[1][0] == "element" else node[1]
        return MEMBERS[self.types[base[1]][0]][node[2]]

    def is_stored(self, node: Expression) -> bool:
        """A member of a struct in an array that the caller passes; those of `params` are at no address here."""
        base = node[1][1] if node[1][0] == "element" else node[1]
        return base[0] == "variable" and self.types.get(base[1], ("", 0))[0] in MEMBERS

    def value(self, node: Expression) -> tuple[str, Type]:
        kind = node[0]
        if kind == "number":
            return str(node[1]), ("int", 0)
        if kind == "fraction":
            return "0", ("float", 0)
        if kind == "variable":
            name = node[1]
            if name in ("NULL", "false"):
                return "0", ("void", 1)
            if name in self.source.constants:
                return str(self.source.constants[name]), ("int", 0)
            if name not in self.types:
                raise NotUnderstood(f"the variable {name}")
            return self.name(name), self.types[name]
        if kind == "size":
            return str(size_of(node[1], self.source.simd)), ("size_t", 0)
        if kind == "size of":
            return str(size_of(self.value(node[1])[1], self.source.simd)), ("size_t", 0)
        if kind == "cast":
            code, (_, depth) = self.value(node[2])
            name = node[1][0]
            if not node[1][1] and not depth and (bits := re.match(r"uint(8|16|32)_t$", name)):
                code = f"(({code}) & {(1 << int(bits[1])) - 1})"
            return code, node[1]
        if kind == "assign":
            name, code, held = self.assigned(node)
            return f"({name} := {code})", held
        if kind == "after":
            target = node[2]
            name, held = self.name(target[1]), self.types[target[1]]
            step = size_of((held[0], held[1] - 1), self.source.simd) if held[1] else 1
            sign, back = ("+", "-") if node[1] == "++" else ("-", "+")
            return f"(({name} := {name} {sign} {step}) {back} {step})", held
        if kind == "conditional":
            yes, held = self.value(node[2])
            return f"({yes} if {self.value(node[1])[0]} else {self.value(node[3])[0]})", held
        if kind == "unary":
            return self.prefixed(node)
        if kind == "binary":
            return self.joined(node)
        if kind == "element":
            return self.loaded(node)
        if kind == "member":
            return self.member(node)
        if kind == "call":
            return self.call(node)
        raise NotUnderstood(kind)

    def assigned(self, node: Expression) -> tuple[str, str, Type]:
        """The variable of an assignment, its new value and its type."""
        _, op, (_, variable), value = node
        name, held = self.name(variable), self.types[variable]
        code, _ = self.value(value)
        if op:
            step = f" * {size_of((held[0], held[1] - 1), self.source.simd)}" if held[1] else ""
            code = f"{name} {'//' if op == '/' else op} ({code}){step}"
        return name, code, held

    def member(self, node: Expression) -> tuple[str, Type]:
        path: list[str] = []
        while node[0] == "member":
            path.insert(0, node[2])
            node = node[1]
        if node[0] != "variable":
            raise NotUnderstood(f"a member of {node}")
        return f"F({'.'.join(path)!r})", ("size_t", 0)

    def loaded(self, node: Expression) -> tuple[str, Type]:
        address, held = self.place(node)
        if held[1]:
            return f"M.pointer({address})", held
        return f"M.load({address}, {size_of(held, self.source.simd)})", held

    def prefixed(self, node: Expression) -> tuple[str, Type]:
        op, operand = node[1], node[2]
        if op == "*":
            return self.loaded(node)
        if op == "&":
            if operand[0] == "variable":
                return self.name(operand[1]), (self.types[operand[1]][0], 1)
            code, (name, depth) = self.place(operand)
            return code, (name, depth + 1)
        if op in ("++", "--"):
            held = self.types[operand[1]]
            step = size_of((held[0], held[1] - 1), self.source.simd) if held[1] else 1
            name = self.name(operand[1])
            return f"({name} := {name} {op[0]} {step})", held
        code, held = self.value(operand)
        return (f"(not {code})" if op == "!" else f"({op}{code})"), held

    def joined(self, node: Expression) -> tuple[str, Type]:
        op = node[1]
        (left, a), (right, b) = self.value(node[2]), self.value(node[3])
        op = {"&&": "and", "||": "or", "/": "//"}.get(op, op)
        if op in ("+", "-") and a[1] and not b[1]:
            return f"({left} {op} ({right}) * {size_of((a[0], a[1] - 1), self.source.simd)})", a
        if op == "+" and b[1] and not a[1]:
            return f"({left} * {size_of((b[0], b[1] - 1), self.source.simd)} + {right})", b
        if op == "-" and a[1] and b[1]:
            return f"(({left} - {right}) // {size_of((a[0], a[1] - 1), self.source.simd)})", ("ptrdiff_t", 0)
        return f"({left} {op} {right})", a

    def call(self, node: Expression) -> tuple[str, Type]:
        name = node[1]
        if self.source.is_access(name):
            return self.access(node), ("vector", 0)
        if name in KNOWN:
            parts = [self.value(part) for part in node[2]]
            return f"{KNOWN[name]}({', '.join(code for code, _ in parts)})", parts[0][1]
        raise NotUnderstood(f"the function {name}")

    def access(self, node: Expression) -> str:
        """The call that notes an access by an intrinsic, which returns what a table holds there."""
        name, arguments = node[1], node[2]

        def code(i: int) -> str:
            return self.value(arguments[i])[0]

        if name in ("_tile_loadd", "_tile_stored"):
            return f"M.tile({code(1)}, {code(2)}, config, {code(0)}, {name == '_tile_stored'})"
        if name in ("memcpy", "memset"):
            read = f"M.read({code(1)}, {code(2)}), " if name == "memcpy" else ""
            return f"({read}M.write({code(0)}, {code(2)}))"
        verb = "write" if re.search(r"stor|_st|vst", name) else "read"
        if name in X86_PARTS:
            address = 1 if name.startswith(("_mm_loadl_pi", "_mm_loadh_pi")) else 0
            return f"M.{verb}({code(address)}, {X86_PARTS[name]})"
        if found := X86.match(name):
            width, masked, action, kind = found.groups()
            size = int(width or 128) // 8
            if masked is None and not action.startswith("mask"):
                address_ = f"M.align({code(0)}, {size})" if action in ("load", "store", "stream_load") else code(0)
                return f"M.{verb}({address_}, {size})"
            lane = LANES[kind]
            mask, (address_of, *_) = self.source.arguments_of(node)
            assert mask is not None
            bits = self.value(mask)[0]
            if action == "expandloadu":
                return (
                    f"M.read({self.value(address_of)[0]}, {lane} * (({bits}) & {(1 << size // lane) - 1}).bit_count())"
                )
            return f"M.{verb}({self.value(address_of)[0]}, lanes({bits}, {lane}, {size // lane}))"
        if found := NEON.match(name):
            _, parts, wide, single, bits_, times = found.groups()
            size = int(bits_) // 8 * int(parts) if single else (16 if wide else 8) * int(parts) * int(times or 1)
            return f"M.{verb}({code(0)}, {size})"
        if found := UNALIGNED.match(name):
            size = int(found[3]) // 8
            return f"M.{verb}({code(0)}{f' + ({code(1)}) * {size}' if found[1] else ''}, {size})"
        if name in self.source.helpers:
            kinds = [kind for kind, _ in self.source.helpers[name]]
            given = [self.value(part)[0] if is_place(kind) else "0" for part, kind in zip(arguments, kinds)]
            return f"helper_{name}({', '.join(given)})"
        raise NotUnderstood(f"the access {name}")
