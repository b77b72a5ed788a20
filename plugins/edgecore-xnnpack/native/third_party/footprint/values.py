"""Translate expressions of C to expressions of Python, with addresses as integers.

In the generated code `M` is the `Memory`, and `F("name")` reads a field of the kernel's parameters.
"""

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
from footprint.nodes import find, is_address_or_count, variables
from footprint.source import Expression, NotUnderstood, Type, size_of

RESERVED = {"in", "is", "lambda", "not", "or", "and", "from", "min", "max"}


class Context(Protocol):
    """The facts about a source file that the translation of its expressions needs."""

    simd: dict[str, int]  # sizes of XNNPACK's vector types
    constants: dict[str, int]
    helpers: dict[str, list[tuple[Type, str]]]  # functions of the file that access memory: their parameters
    pure: set[str]  # functions of the file that access no memory

    def is_access(self, name: str) -> bool: ...

    def arguments_of(self, node: Expression) -> tuple[Expression | None, list[Expression]]: ...


class Values:
    """Translates expressions; `needed` holds the variables that addresses, masks and conditions depend on."""

    def __init__(self, source: Context, types: dict[str, Type]) -> None:
        self.source, self.types = source, types
        self.rows: dict[str, Expression] = {}  # two-dimensional arrays: the length of a row
        self.structs: set[str] = set()  # variables of type __tile_config (AMX)
        self.needed: set[str] = set()

    @staticmethod
    def name(variable: str) -> str:
        return variable + "_" if variable in RESERVED else variable

    def holds_pointer(self, target: Expression) -> bool:
        """Return True if `target` is an element of an array of pointers."""
        depth = 0
        while target[0] == "element":
            target, depth = target[1], depth + 1
        return target[0] == "variable" and depth > 0 and self.types.get(target[1], ("", 0))[1] > depth

    def is_parameter(self, node: Expression) -> bool:
        """Return True if the node reads a member of a struct that is not stored in a buffer.

        Such structs are the kernel's parameters, and local structs of vectors such as `int8x16x2_t`.
        """
        members = find(node, {"member"})
        return bool(members) and not any(self.is_stored(member) for member in members)

    def is_noted(self, address: Expression) -> bool:
        """Return True if accesses to `address` are recorded.

        Accesses to the kernel's parameters are not recorded, because their size is fixed. Accesses to XNNPACK's lookup
        tables are not recorded either, because kernels mask the index to the size of the table.
        """
        return not self.is_parameter(address) and not any(name.startswith("xnn_table_") for name in variables(address))

    def address(self, node: Expression) -> tuple[str, Type]:
        """Return the address of an lvalue, and the type of the value at this address."""
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
            base, _ = self.address(node[1]) if node[1][0] == "element" else self.value(node[1])
            return f"({base} + {self.offset(node)})", ("float", 0)
        raise NotUnderstood(f"the address of {node}")

    def offset(self, node: Expression) -> int:
        base = node[1][1] if node[1][0] == "element" else node[1]
        return MEMBERS[self.types[base[1]][0]][node[2]]

    def is_stored(self, node: Expression) -> bool:
        """Return True if the node is a member of a struct that is stored in a buffer (`MEMBERS`)."""
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
            name, code, type_ = self.assigned(node)
            return f"({name} := {code})", type_
        if kind == "after":
            target = node[2]
            name, type_ = self.name(target[1]), self.types[target[1]]
            step = size_of((type_[0], type_[1] - 1), self.source.simd) if type_[1] else 1
            sign, undo = ("+", "-") if node[1] == "++" else ("-", "+")
            return f"(({name} := {name} {sign} {step}) {undo} {step})", type_
        if kind == "conditional":
            then, type_ = self.value(node[2])
            return f"({then} if {self.value(node[1])[0]} else {self.value(node[3])[0]})", type_
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
        """Return the variable of an assignment, its new value, and its type."""
        _, op, (_, variable), value = node
        name, type_ = self.name(variable), self.types[variable]
        code, _ = self.value(value)
        if op:
            step = f" * {size_of((type_[0], type_[1] - 1), self.source.simd)}" if type_[1] else ""
            code = f"{name} {'//' if op == '/' else op} ({code}){step}"
        return name, code, type_

    def member(self, node: Expression) -> tuple[str, Type]:
        path: list[str] = []
        while node[0] == "member":
            path.insert(0, node[2])
            node = node[1]
        if node[0] != "variable":
            raise NotUnderstood(f"a member of {node}")
        return f"F({'.'.join(path)!r})", ("size_t", 0)

    def loaded(self, node: Expression) -> tuple[str, Type]:
        address, type_ = self.address(node)
        if type_[1]:
            return f"M.pointer({address})", type_
        return f"M.load({address}, {size_of(type_, self.source.simd)})", type_

    def prefixed(self, node: Expression) -> tuple[str, Type]:
        op, operand = node[1], node[2]
        if op == "*":
            return self.loaded(node)
        if op == "&":
            if operand[0] == "variable":
                return self.name(operand[1]), (self.types[operand[1]][0], 1)
            code, (name, depth) = self.address(operand)
            return code, (name, depth + 1)
        if op in ("++", "--"):
            type_ = self.types[operand[1]]
            step = size_of((type_[0], type_[1] - 1), self.source.simd) if type_[1] else 1
            name = self.name(operand[1])
            return f"({name} := {name} {op[0]} {step})", type_
        code, type_ = self.value(operand)
        return (f"(not {code})" if op == "!" else f"({op}{code})"), type_

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
        """Return the call that records an access by an intrinsic or a helper function.

        A read from a local array also returns the bytes, because kernels load masks from such arrays.
        """
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
            index = 1 if name.startswith(("_mm_loadl_pi", "_mm_loadh_pi")) else 0
            return f"M.{verb}({code(index)}, {X86_PARTS[name]})"
        if match := X86.match(name):
            width, masked, action, kind = match.groups()
            size = int(width or 128) // 8
            if masked is None and not action.startswith("mask"):
                address = f"M.align({code(0)}, {size})" if action in ("load", "store", "stream_load") else code(0)
                return f"M.{verb}({address}, {size})"
            lane = LANES[kind]
            mask, (base, *_) = self.source.arguments_of(node)
            assert mask is not None
            bits, address = self.value(mask)[0], self.value(base)[0]
            if action == "expandloadu":
                return f"M.read({address}, {lane} * (({bits}) & {(1 << size // lane) - 1}).bit_count())"
            return f"M.{verb}({address}, lanes({bits}, {lane}, {size // lane}))"
        if match := NEON.match(name):
            _, parts, wide, single, lane_bits, times = match.groups()
            size = int(lane_bits) // 8 * int(parts) if single else (16 if wide else 8) * int(parts) * int(times or 1)
            return f"M.{verb}({code(0)}, {size})"
        if match := UNALIGNED.match(name):
            size = int(match[3]) // 8
            return f"M.{verb}({code(0)}{f' + ({code(1)}) * {size}' if match[1] else ''}, {size})"
        if name in self.source.helpers:
            kinds = [kind for kind, _ in self.source.helpers[name]]
            passed = [self.value(part)[0] if is_address_or_count(kind) else "0" for part, kind in zip(arguments, kinds)]
            return f"helper_{name}({', '.join(passed)})"
        raise NotUnderstood(f"the access {name}")
