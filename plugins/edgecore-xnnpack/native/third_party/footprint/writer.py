"""Translate a C function to a Python function that makes the same accesses and computes no elements."""

from __future__ import annotations

from typing import Any

from footprint.intrinsics import PURE
from footprint.nodes import dimensions, find, is_vector, variables
from footprint.source import Expression, NotUnderstood, Type, size_of
from footprint.values import Context, Values


class Writer(Values):
    """Writes the Python function for a C function."""

    def __init__(self, source: Context, parameters: list[tuple[Type, str]], body: list[Expression]) -> None:
        super().__init__(source, {name: kind for kind, name in parameters})
        self.lines: list[str] = []
        self.declare(body)
        self.needed = self.slice(body)
        names = ", ".join(self.name(name) for _, name in parameters)
        self.lines.append(f"def kernel({names}):")
        self.block(body, 1)

    def text(self) -> str:
        return "\n".join(self.lines)

    # -- analysis: the variables that the accesses depend on

    def declare(self, body: Any) -> None:
        for _, (name, depth), variable, count, _ in find(body, {"declare"}):
            self.types[variable] = (name, depth + dimensions(count))
            if count is not None and count[0] == "rows":
                self.rows[variable] = count[2]
            elif depth == 0 and name.startswith("__tile"):
                self.structs.add(variable)

    def slice(self, body: list[Expression]) -> set[str]:
        """Return the variables that addresses, masks and conditions depend on, directly or through assignments.

        This is a backward slice of the function: `needed` begins with the variables that occur in addresses, masks and
        conditions, and grows by the variables that are assigned to needed variables, until nothing is added.
        """
        flows: list[tuple[str, set[str]]] = []  # assignments: the target, and the variables of the value
        needed: set[str] = set()

        def visit(node: Any) -> None:
            if isinstance(node, list):
                for item in node:
                    visit(item)
            if not isinstance(node, tuple) or not node:
                return
            kind = node[0]
            if kind == "if":
                self.branch(node, flows, needed)
            elif kind in ("while", "switch"):
                needed.update(variables(node[1]))
            elif kind == "for":
                needed.update(variables(node[2]))
            elif kind == "do":
                needed.update(variables(node[2]))
            elif kind == "declare":
                if node[4] is not None:
                    flows.append((node[2], variables(node[4])))
                if node[3] is not None:
                    needed.add(node[2])
            elif kind == "assign":
                target = node[2]
                if target[0] == "variable":
                    flows.append((target[1], variables(node[3])))
                else:
                    needed.update(variables(target))
                    stored = target[0] in ("element", "member") and variables(target) & self.structs
                    if stored or self.holds_pointer(target):
                        needed.update(variables(node[3]))
            elif kind == "element" and self.is_noted(node):
                needed.update(variables(node))
            elif kind == "unary" and node[1] == "*" and self.is_noted(node):
                needed.update(variables(node[2]))
            elif kind == "call" and self.source.is_access(node[1]):
                mask, address = self.source.arguments_of(node)
                for part in (mask, *address) if self.is_noted(address[0]) else ():
                    if part is not None:
                        needed.update(variables(part))
            for item in node[1:]:
                visit(item)

        visit(body)
        has_grown = True
        while has_grown:
            has_grown = False
            for target, sources in flows:
                if target in needed and not sources <= needed:
                    needed |= sources
                    has_grown = True
        return needed

    def branch(self, node: Expression, flows: list[tuple[str, set[str]]], needed: set[str]) -> None:
        """Add the dependencies of an `if`: its condition is needed if a branch accesses memory or leaves a loop.

        If a branch assigns a variable, the condition is also needed if this variable is needed.
        """
        condition = variables(node[1])
        inside = [*node[2], *node[3]]
        effects = find(inside, {"after", "break", "return", "element", "while", "do", "for", "call", "unary"})
        if any(
            self.source.is_access(effect[1])
            if effect[0] == "call"
            else effect[0] != "unary" or effect[1] in ("*", "++", "--")
            for effect in effects
        ):
            needed.update(condition)
        flows += [(assign[2][1], condition) for assign in find(inside, {"assign"}) if assign[2][0] == "variable"]

    # -- statements

    def block(self, body: list[Expression], depth: int) -> None:
        before = len(self.lines)
        for statement in body:
            self.statement(statement, depth)
        if len(self.lines) == before:
            self.put(depth, "pass")

    def put(self, depth: int, line: str) -> None:
        self.lines.append("  " * depth + line)

    def statement(self, node: Expression, depth: int) -> None:
        kind = node[0]
        if kind == "do it":
            self.run(node[1], depth)
        elif kind == "declare":
            self.define(node, depth)
        elif kind == "if":
            before, self.lines = self.lines, []
            self.block(node[2], depth + 1)
            self.put(depth, "else:")
            self.block(node[3], depth + 1)
            inside, self.lines = self.lines, before
            if any(line.strip() not in ("pass", "else:") for line in inside):
                self.put(depth, f"if {self.value(node[1])[0]}:")
                self.lines += inside
        elif kind == "while":
            self.put(depth, f"while {self.value(node[1])[0]}:")
            self.put(depth + 1, "M.count_iteration()")
            self.block(node[2], depth + 1)
        elif kind == "do":
            self.put(depth, "while True:")
            self.put(depth + 1, "M.count_iteration()")
            self.block(node[1], depth + 1)
            self.put(depth + 1, f"if not ({self.value(node[2])[0]}): break")
        elif kind == "for":
            for first in node[1]:
                self.statement(first, depth)
            self.put(depth, f"while {self.value(node[2])[0]}:")
            self.put(depth + 1, "M.count_iteration()")
            self.block([*node[4], *node[3]], depth + 1)
        elif kind == "switch":
            self.switch(node, depth)
        elif kind in ("break", "return"):
            self.put(depth, kind)
        else:
            raise NotUnderstood(kind)

    def switch(self, node: Expression, depth: int) -> None:
        """Write a switch as a loop that runs once, so that `break` leaves it; a case falls through to the next."""
        subject = f"subject{len(self.lines)}"
        self.put(depth, f"{subject} = {self.value(node[1])[0]}; entered_{subject} = False")
        self.put(depth, "while True:")
        values = [self.value(value)[0] for value, _ in node[2] if value is not None]
        for value, body in node[2]:
            test = (
                f"{subject} not in [{', '.join(values)}]" if value is None else f"{subject} == {self.value(value)[0]}"
            )
            self.put(depth + 1, f"if entered_{subject} or {test}:")
            self.put(depth + 2, f"entered_{subject} = True")
            self.block(body, depth + 2)
        self.put(depth + 1, "break")

    def define(self, node: Expression, depth: int) -> None:
        _, (base, stars), variable, count, value = node
        self.types[variable] = (base, stars + dimensions(count))
        name = self.name(variable)
        if variable in self.structs:
            self.put(depth, f"{name} = {{}}; config = {name}")
        elif count is not None:
            item = size_of((base, stars), self.source.simd)
            values: list[str] = []
            if value is not None and value[0] == "list":
                values = [
                    self.value(part)[0] if part[0] != "fraction" else "0"
                    for part in value[1]
                    if not variables(part) - {"UINT8_MAX"}
                ]
            length = " * ".join(f"({self.value(part)[0]})" for part in (count[1:] if count[0] == "rows" else [count]))
            self.put(
                depth, f"{name} = M.table({variable!r}, max({length}, {len(values)}), {item}, [{', '.join(values)}])"
            )
        elif value is None:
            return
        elif variable in self.needed:
            is_vector = self.is_vector_variable(variable)
            self.put(depth, f"{name} = {self.value_or_none(value, depth) if is_vector else self.value(value)[0]}")
        else:
            self.effects(value, depth)

    def run(self, node: Expression, depth: int) -> None:
        if node[0] == "assign":
            op, target = node[1], node[2]
            if target[0] == "variable":
                if target[1] in self.needed:
                    self.put(depth, self.assign(node, depth))
                else:
                    self.effects(node[3], depth)
                return
            if variables(target) & self.structs:
                number, member = target[2], target[1]
                if target[0] == "element":
                    self.put(depth, f"config[{member[2]!r}, {self.value(number)[0]}] = {self.value(node[3])[0]}")
                return
            if self.is_parameter(target):
                self.effects(node[3], depth)
                return
            if self.holds_pointer(target):
                self.put(depth, f"M.store({self.address(target)[0]}, {self.value(node[3])[0]})")
                return
            self.effects(node[3], depth)
            address, kind = self.address(target)
            size = size_of(kind, self.source.simd)
            if op:  # the address is evaluated once only, because it may contain an increment
                self.put(depth, f"_address = {address}")
                self.put(depth, f"M.read(_address, {size})")
                address = "_address"
            self.put(depth, f"M.write({address}, {size})")
            return
        self.effects(node, depth)

    def assign(self, node: Expression, depth: int) -> str:
        variable = node[2][1]
        if self.is_vector_variable(variable):
            return f"{self.name(variable)} = {self.value_or_none(node[3], depth)}"
        name, code, _ = self.assigned(node)
        return f"{name} = {code}"

    def effects(self, node: Any, depth: int) -> None:
        """Write the accesses and increments in an expression whose value is not needed."""
        if not isinstance(node, tuple):
            return
        kind = node[0]
        if kind == "call" and self.source.is_access(node[1]):
            mask, address = self.source.arguments_of(node)
            for argument in node[2]:
                if argument is not mask and argument not in address:
                    self.effects(argument, depth)
            if self.is_noted(address[0]):
                self.put(depth, self.access(node))
        elif kind == "call":
            if node[1] not in self.source.pure and not PURE.match(node[1]):
                raise NotUnderstood(f"the function {node[1]}")
            for argument in node[2]:
                self.effects(argument, depth)
        elif kind == "after" or (kind == "unary" and node[1] in ("++", "--")):
            target = node[2]
            if target[0] == "variable" and target[1] in self.needed:
                self.put(depth, self.value(node)[0])
            elif target[0] != "variable":
                raise NotUnderstood("++ of an expression that is not a variable")
        elif (kind == "unary" and node[1] == "*") or kind == "element" or (kind == "member" and self.is_stored(node)):
            if self.is_noted(node):
                code, type_ = self.address(node)
                self.put(depth, f"M.read({code}, {size_of(type_, self.source.simd)})")
        elif kind == "member" or (kind == "unary" and node[1] == "&"):
            return
        elif kind == "assign":
            self.run(node, depth)
        elif kind == "conditional":
            self.effects(node[1], depth)
            if find(node[2:], {"call", "after", "element"}):
                self.put(depth, f"if {self.value(node[1])[0]}:")
                self.block([("do it", node[2])], depth + 1)
                self.put(depth, "else:")
                self.block([("do it", node[3])], depth + 1)
        elif kind == "cast":
            self.effects(node[2], depth)
        elif kind in ("binary", "unary", "comma"):
            for part in node[1:]:
                self.effects(part, depth)
        elif kind == "list":
            for part in node[1]:
                self.effects(part, depth)

    def is_vector_variable(self, variable: str) -> bool:
        """Return True for a vector; the parser omits only declarations of vectors, so unknown names are vectors."""
        name, depth = self.types.get(variable, ("__m128", 0))
        return depth == 0 and is_vector(name)

    def value_or_none(self, value: Expression, depth: int) -> str:
        """Return the code of a vector's value, or "None" if it cannot be translated.

        Such a vector is not a mask. It is assigned only because `needed` has a variable of another block with the same
        name.
        """
        try:
            return self.value(value)[0]
        except NotUnderstood:
            self.effects(value, depth)
            return "None"
