"""A preprocessor and a parser for the part of C that XNNPACK's micro-kernels are written in.

The parser makes tuples: the kind of the node, then its parts, such as ("binary", "+", left, right). Statements that
compute only elements are omitted already here (`Parser.is_pure`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Expression = tuple[Any, ...]
Type = tuple[str, int]  # the base type's name, and the depth of pointers: ("float", 1) is float*


class NotUnderstood(Exception):
    """A construct, function or variable that the translation does not support."""


# ---- the preprocessor


def preprocess(text: str, defined: Callable[[str], int]) -> str:
    """Remove comments and the branches of #if whose condition is 0; `defined` returns the value of a macro."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    lines: list[str] = []
    branches: list[tuple[bool, bool]] = []  # for each open #if: is this branch active, and has any been active

    def holds(condition: str) -> bool:
        condition = re.sub(r"defined\s*\(?\s*(\w+)\s*\)?", lambda m: str(defined(m[1])), condition)
        condition = re.sub(r"\b[A-Za-z_]\w*\s*\([^()]*\)", "0", condition)  # __has_feature(...)
        condition = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: str(defined(m[0])), condition)
        condition = condition.replace("&&", " and ").replace("||", " or ")
        return bool(eval(re.sub(r"!(?!=)", " not ", condition), {"__builtins__": {}}))

    for line in re.sub(r"//.*", "", text.replace("\\\n", " ")).splitlines():
        directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
        if directive is None:
            if all(active for active, _ in branches):
                lines.append(line)
            continue
        word, rest = directive.groups()
        if word in ("if", "ifdef", "ifndef"):
            active = holds(rest) if word == "if" else bool(defined(rest.split()[0])) == (word == "ifdef")
            branches.append((active, active))
        elif word in ("elif", "else"):
            _, any_active = branches[-1]
            active = not any_active and (word == "else" or holds(rest))
            branches[-1] = (active, any_active or active)
        elif word == "endif":
            branches.pop()
        elif word == "define" and all(active for active, _ in branches):
            lines.append(line)
    return "\n".join(lines)


TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*"|0[xX][\da-fA-F.]+(?:[pP][-+]?\d+)?[uUlLfF]*|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[uUlLfF]*'
    r"|[A-Za-z_]\w*|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\S"
)
TYPE = re.compile(
    r"(?:u?int(?:8|16|32|64|ptr)_t|size_t|ptrdiff_t|float|double|int|unsigned|char|void|bool|__m(?:64|128|256|512)\w*"
    r"|__mmask\d+|(?:u?int|float|poly)\d+x\d+(?:x\d)?_t|u?int(?:8|16)x\d_t|xnn_simd_\w+_t|xnn_float16|xnn_bfloat16"
    r"|__fp16|float16_t|const|struct|union|static|restrict|volatile|XNN_INLINE|XNN_ALIGN|inline)$"
)
SIZES = {
    "void": 1, "char": 1, "bool": 1, "int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "xnn_float16": 2,
    "xnn_bfloat16": 2, "__fp16": 2, "float16_t": 2, "int": 4, "unsigned": 4, "int32_t": 4, "uint32_t": 4, "float": 4,
    "double": 8, "int64_t": 8, "uint64_t": 8, "size_t": 8, "ptrdiff_t": 8, "uintptr_t": 8, "intptr_t": 8,
    "xnn_qd8_quantization_params": 8, "int16x2_t": 4, "int8x4_t": 4, "uint8x4_t": 4, "uint16x2_t": 4,
}  # fmt: skip


def size_of(kind: Type, simd: dict[str, int]) -> int:
    """Return the size in bytes of a value of type `kind`; `simd` has the sizes of XNNPACK's own vector types."""
    name, depth = kind
    if depth:
        return 8
    if name in SIZES:
        return SIZES[name]
    if name in simd:
        return simd[name]
    if match := re.match(r"__m(64|128|256|512)", name):
        return int(match[1]) // 8
    if match := re.match(r"[a-z]+(\d+)x(\d+)(?:x(\d))?_t$", name):
        return int(match[1]) * int(match[2]) * int(match[3] or 1) // 8
    raise NotUnderstood(f"the size of {name}")


# ---- parsing

LEVELS = [("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
          ("*", "/", "%")]  # fmt: skip
LEVEL = {op: level for level, ops in enumerate(LEVELS) for op in ops}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
ACCESS = re.compile(
    r"_mm\w*(?:load|stor|gather|scatter|lddqu|_broadcast_(?:ss|sd|ps|pd)$)|_tile_(?:load|stor)|v(?:ld|st)[1-4]"
    r"|unaligned_|xnn_(?:load|store)|mem(?:cpy|set|move)$"
)
SKIPPED = {"assert", "XNN_FORCE_REALIZATION", "xnn_prefetch_to_l1", "__asm__", "_mm_prefetch", "XNN_PREFETCH"}
TRANSPARENT = re.compile(r"XNN_(?:LIKELY|UNLIKELY|UNPREDICTABLE)$|U?INT\d+_C$")


def is_access(name: str) -> bool:
    """Return True if a function of this name reads or writes memory."""
    return ACCESS.match(name) is not None


class Parser:
    """Parses the body of a function to tuples."""

    def __init__(self, tokens: list[str], helpers: frozenset[str] = frozenset()) -> None:
        self.tokens, self.at = tokens, 0
        self.helpers = helpers  # functions of the same file that access memory

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise NotUnderstood(
                f"{token!r} where {expected!r} was expected, near {' '.join(self.tokens[self.at - 6 : self.at + 4])}"
            )
        self.at += 1
        return token

    def is_type(self, ahead: int = 0) -> bool:
        at = self.at + ahead
        return at < len(self.tokens) and TYPE.match(self.tokens[at]) is not None

    # -- statements

    def block(self) -> list[Expression]:
        self.take("{")
        statements: list[Expression] = []
        while self.peek() != "}":
            statements += self.statement()
        self.take("}")
        return statements

    def body(self) -> list[Expression]:
        return self.block() if self.peek() == "{" else self.statement()

    def condition(self) -> Expression:
        """Parse the condition in parentheses after if or while, with or without a macro such as XNN_LIKELY."""
        if TRANSPARENT.match(self.peek()):
            self.take()
        self.take("(")
        condition = self.expression()
        self.take(")")
        return condition

    def statement(self) -> list[Expression]:
        word = self.peek()
        if word == "{":
            return self.block()
        if word == ";":
            self.take()
            return []
        if word in SKIPPED:
            self.at = self.tokens.index(";", self.at) + 1
            return []
        if word == "if":
            self.take()
            condition, then, other = self.condition(), self.body(), []
            if self.peek() == "else":
                self.take()
                other = self.body()
            return [("if", condition, then, other)]
        if word == "while":
            self.take()
            return [("while", self.condition(), self.body())]
        if word == "do":
            self.take()
            body = self.body()
            self.take("while")
            condition = self.condition()
            self.take(";")
            return [("do", body, condition)]
        if word == "for":
            return [self.loop()]
        if word == "switch":
            return [self.switch()]
        if word in ("break", "continue"):
            self.take()
            self.take(";")
            return [(word,)]
        if word == "return":
            self.take()
            value = [] if self.peek() == ";" else [("do it", self.expression())]
            self.take(";")
            return [*value, ("return",)]
        if word == "struct" and self.tokens[self.at + 2] == "{":  # a definition
            self.at = self.tokens.index("}", self.at) + 1
            self.take(";")
            return []
        end = self.tokens.index(";", self.at)
        if self.is_pure(end):
            self.at = end + 1
            return []
        is_declaration = self.is_type() or word == "__attribute__"
        statements = self.declaration() if is_declaration else [("do it", self.expression())]
        self.take(";")
        return statements

    def is_pure(self, end: int) -> bool:
        """Return True if the statement up to `end` only computes tensor elements, so that it is omitted.

        Such a statement has no memory access, no mask and no counter. The test looks at the tokens only, so that the
        parser need not support the expressions of such statements.
        """
        words = self.tokens[self.at : end]
        if not words[0].isidentifier() or any(word in ("[", "->", "++", "--", "*", "&", "{", "*=") for word in words):
            return False
        if words[0] == "const":
            words = words[1:]
        vector = re.match(r"__m\d|float$|(?:u?int|float|poly)\d+x|xnn_simd_\w+_t$", words[0]) is not None
        call = len(words) > 3 and words[1] == "=" and re.match(r"_mm|v[a-z]|xnn_", words[2]) is not None
        if not vector and not call:
            return False
        return not any("mask" in word or word in self.helpers or is_access(word) for word in words)

    def loop(self) -> Expression:
        self.take("for")
        self.take("(")
        first = [] if self.peek() == ";" else self.declaration() if self.is_type() else [("do it", self.expression())]
        self.take(";")
        condition = ("number", 1) if self.peek() == ";" else self.expression()
        self.take(";")
        last: list[Expression] = []
        while self.peek() != ")":
            last.append(("do it", self.assignment()))
            if self.peek() == ",":
                self.take()
        self.take(")")
        return ("for", first, condition, last, self.body())

    def switch(self) -> Expression:
        self.take("switch")
        subject = self.condition()
        self.take("{")
        cases: list[tuple[Expression | None, list[Expression]]] = []
        while self.peek() != "}":
            if self.peek() == "XNN_FALLTHROUGH":
                self.take()
            elif self.peek() in ("case", "default"):
                value = self.expression() if self.take() == "case" else None
                self.take(":")
                cases.append((value, []))
            else:
                cases[-1][1].extend(self.statement())
        self.take("}")
        return ("switch", subject, cases)

    def type(self) -> Type:
        name = ""
        while self.is_type() or self.peek() == "__attribute__":
            word = self.take()
            if word in ("struct", "union"):
                name = self.take()
            elif word in ("XNN_ALIGN", "__attribute__"):
                self.parenthesis()
            elif word not in ("const", "static", "restrict", "volatile", "XNN_INLINE", "inline"):
                name = word
        return name, self.stars()

    def stars(self) -> int:
        depth = 0
        while self.peek() in ("*", "const", "restrict"):
            depth += self.take() == "*"
        return depth

    def parenthesis(self) -> None:
        depth = 0
        while True:
            word = self.take()
            depth += (word == "(") - (word == ")")
            if depth == 0:
                return

    def declaration(self) -> list[Expression]:
        name, depth = self.type()
        declarations: list[Expression] = []
        while True:
            variable = self.take()
            count: Expression | None = None
            while self.peek() == "[":
                self.take()
                length = ("number", 0) if self.peek() == "]" else self.expression()
                self.take("]")
                count = length if count is None else ("rows", count, length)
            value: Expression | None = None
            if self.peek() == "=":
                self.take()
                value = self.list() if self.peek() == "{" else self.assignment()
            declarations.append(("declare", (name, depth), variable, count, value))
            if self.peek() != ",":
                return declarations
            self.take()
            depth = self.stars()

    def list(self) -> Expression:
        self.take("{")
        items: list[Expression] = []
        while self.peek() != "}":
            items.append(self.assignment())
            if self.peek() == ",":
                self.take()
        self.take("}")
        return ("list", items)

    # -- expressions

    def expression(self) -> Expression:
        node = self.assignment()
        while self.peek() == ",":
            self.take()
            node = ("comma", node, self.assignment())
        return node

    def assignment(self) -> Expression:
        left = self.conditional()
        if self.peek() in ASSIGNMENTS:
            op = self.take()
            return ("assign", op[:-1], left, self.assignment())
        return left

    def conditional(self) -> Expression:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take()
        then = self.expression()
        self.take(":")
        return ("conditional", condition, then, self.conditional())

    def binary(self, level: int) -> Expression:
        left = self.unary()
        while LEVEL.get(self.peek(), -1) >= level:
            op = self.take()
            left = ("binary", op, left, self.binary(LEVEL[op] + 1))
        return left

    def unary(self) -> Expression:
        word = self.peek()
        if word in ("*", "&", "-", "+", "!", "~", "++", "--"):
            self.take()
            return ("unary", word, self.unary())
        if word == "sizeof":
            self.take()
            self.take("(")
            node: Expression = ("size", self.type()) if self.is_type() else ("size of", self.expression())
            self.take(")")
            return node
        if word == "(" and self.is_type(1):
            self.take()
            kind = self.type()
            self.take(")")
            return ("cast", kind, self.unary())
        return self.postfix()

    def postfix(self) -> Expression:
        word = self.take()
        node: Expression
        if word == "(":
            node = self.expression()
            self.take(")")
        elif word[0].isdigit() or (word[0] == "." and len(word) > 1):
            hexadecimal = word[:2] in ("0x", "0X")
            digits = word.rstrip("uUlL" if hexadecimal else "uUlLfF")
            node = ("number", int(digits, 0)) if re.fullmatch(r"0[xX][\da-fA-F]+|\d+", digits) else ("fraction",)
        elif word.isidentifier():
            node = ("variable", word)
        else:
            raise NotUnderstood(f"{word!r}, near {' '.join(self.tokens[self.at - 6 : self.at + 4])}")
        while True:
            word = self.peek()
            if word == "(":
                self.take()
                arguments: list[Expression] = []
                while self.peek() != ")":
                    arguments.append(self.assignment())
                    if self.peek() == ",":
                        self.take()
                self.take(")")
                transparent = len(arguments) == 1 and TRANSPARENT.match(node[1])
                node = arguments[0] if transparent else ("call", node[1], arguments)
            elif word == "[":
                self.take()
                node = ("element", node, self.expression())
                self.take("]")
            elif word in (".", "->"):
                self.take()
                node = ("member", node, self.take())
            elif word in ("++", "--"):
                self.take()
                node = ("after", word, node)
            else:
                return node
