"""Parser of expressions in IR text, over a token stream that its caller owns.

Grammar, loosest first; `not` and the comparisons do not repeat, the others join to one node with many
operands, and parentheses always make a node of their own:

    expr    := or ; or := and ("or" and)* ; and := not ("and" not)* ; not := "not" not | compare
    compare := sum [("==" | "!=" | "<" | "<=" | ">" | ">=") sum]
    sum     := product (("+" | "-") product)*
    product := factor (("*" | "//" | "%" | "/") factor)*
    factor  := "-" factor | power
    power   := atom ["**" factor]
    atom    := NUMBER | "inf" | "nan" | "true" | "false" | symbol | "(" expr ")" | function "(" args ")"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from wrapper_ir.errors import ExpressionError, ParseError
from wrapper_ir.expr.base import Expr, SymKind
from wrapper_ir.expr.infix import Level
from wrapper_ir.expr.nodes import (
    Add,
    And,
    Bool,
    CeilDiv,
    Cmp,
    CmpOp,
    Convert,
    ConvertOp,
    Float,
    FloorDiv,
    Int,
    Item,
    MathFn,
    MathOp,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    OffsetOf,
    Or,
    Pow,
    SizeOf,
    StrideOf,
    Sym,
    TrueDiv,
    Where,
)
from wrapper_ir.expr.tokens import Lexer, Token, TokenStream, syntax_error

if TYPE_CHECKING:
    from wrapper_ir.values import Value

__all__ = ["ExprParser", "parse_expr"]

MAX_DEPTH = 100
"""Parentheses, calls and signs may nest this deep; it keeps hostile text from exhausting the stack."""


_LEVELS: dict[str, Level] = {
    "or": Level.OR,
    "and": Level.AND,
    **{op.value: Level.COMPARE for op in CmpOp},
    "+": Level.SUM,
    "-": Level.SUM,
    "*": Level.PRODUCT,
    "//": Level.PRODUCT,
    "%": Level.PRODUCT,
    "/": Level.PRODUCT,
}
_NARY: dict[str, type[Add] | type[Mul] | type[And] | type[Or]] = {
    "+": Add,
    "-": Add,
    "*": Mul,
    "and": And,
    "or": Or,
}
_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {"//": FloorDiv, "%": Mod, "/": TrueDiv}
_CONSTANTS: dict[str, Expr] = {
    "true": Bool(True),
    "false": Bool(False),
    "inf": Float(float("inf")),
    "nan": Float(float("nan")),
}
_CONVERSIONS = {op.value: op for op in ConvertOp}
_MATH = {op.value: op for op in MathOp}
_DIM_ATOMS: dict[str, Callable[[Value, int], Expr]] = {"size": SizeOf, "stride": StrideOf}
_VALUE_ATOMS: dict[str, Callable[[Value], Expr]] = {"offset": OffsetOf, "item": Item}


def parse_expr(
    text: str,
    symbol_kinds: Mapping[str, SymKind] | None = None,
    values: Mapping[str, Value] | None = None,
) -> Expr:
    """The expression that `text` spells, built node by node without simplification.

    `symbol_kinds` declares the symbols and `values` the values (by name, without `%`) that may occur.
    Raises ParseError WIR550 (syntax), WIR551 (symbol), WIR552 (value), WIR553 (nested too deep).
    """
    tokens = Lexer(text)
    parser = ExprParser(tokens, symbol_kinds or {}, values or {})
    e = parser.parse()
    if tokens.peek().kind != "EOF":
        raise syntax_error("WIR550", f"unexpected {tokens.peek().text!r} after the expression", tokens.peek())
    return e


class ExprParser:
    """Reads one expression from the stream and leaves the stream right after it."""

    def __init__(
        self, tokens: TokenStream, symbol_kinds: Mapping[str, SymKind], values: Mapping[str, Value]
    ) -> None:
        self._tokens = tokens
        self._symbol_kinds = symbol_kinds
        self._values = values
        self._depth = 0

    def parse(self) -> Expr:
        """The next expression, of any level."""
        try:
            return self._climb(Level.OR)[0]
        except RecursionError as error:  # the caller's own stack was deep already
            raise _too_deep(self._tokens.peek()) from error

    def _climb(self, minimum: int) -> tuple[Expr, bool]:
        """Operators of at least `minimum`, and whether the result stands without parentheses of its own."""
        left, bare = self._prefix(minimum)
        # The operands of the sum, product, conjunction or disjunction being read, and which of them it is.
        run: list[Expr] = []
        joined: type[Add] | type[Mul] | type[And] | type[Or] | None = None
        outer = self._depth
        while True:
            token = self._tokens.peek()
            level = _LEVELS.get(token.text, -1) if token.kind in ("OP", "NAME") else -1
            if level < minimum:
                self._depth = outer
                return (joined(tuple(run)) if joined else left), bare
            self._tokens.next()
            right, right_bare = self._climb(level + 1)
            cls = _NARY.get(token.text)
            if cls is None or cls is not joined:
                self._deepen()  # `a // b // c` nests to the left
            if cls is not None:
                if token.text == "-":
                    right = _negated(right, right_bare)
                if cls is not joined:
                    left = joined(tuple(run)) if joined else left
                    run = list(left.args) if cls is Mul and bare and isinstance(left, Mul) else [left]
                    joined = cls
                run.append(right)
            else:
                left = joined(tuple(run)) if joined else left
                joined = None
                left = self._binary(token, left, bare, right)
            bare = True

    def _binary(self, token: Token, left: Expr, left_bare: bool, right: Expr) -> Expr:
        make = _BINARY.get(token.text)
        if make is not None:
            return make(left, right)
        if isinstance(left, Cmp) and left_bare:
            raise syntax_error("WIR550", "comparisons do not chain", token, hint="write `a < b and b < c`")
        return Cmp(CmpOp(token.text), left, right)

    def _prefix(self, minimum: int) -> tuple[Expr, bool]:
        token = self._tokens.peek()
        if token.text == "-" and token.kind == "OP":
            self._tokens.next()
            return self._nested(self._signed), True
        if token.text == "not" and token.kind == "NAME":
            if minimum > Level.NOT:
                raise syntax_error("WIR550", "`not` needs parentheses here", token)
            self._tokens.next()
            return self._nested(lambda: Not(self._climb(Level.NOT)[0])), True
        return self._power()

    def _signed(self) -> Expr:
        """What follows a minus sign: a number takes it up, anything else is multiplied by -1."""
        operand, bare = self._prefix(Level.SIGN)
        if bare and isinstance(operand, Int | Float) and not _is_negative(operand):
            return _negative(operand)
        return Mul((Int(-1), operand))

    def _power(self) -> tuple[Expr, bool]:
        base, bare = self._atom()
        token = self._tokens.peek()
        if token.text != "**" or token.kind != "OP":
            return base, bare
        self._tokens.next()
        return Pow(base, self._nested(lambda: self._prefix(Level.SIGN)[0])), True

    def _atom(self) -> tuple[Expr, bool]:
        token = self._tokens.next()
        match token.kind:
            case "NUMBER":
                return _number(token), True
            case "OP" if token.text == "(":
                inner = self._nested(self.parse)
                self._expect(")")
                return inner, False
            case "NAME" if token.text in _CONSTANTS:
                return _CONSTANTS[token.text], True
            case "NAME":
                following = self._tokens.peek()
                if following.kind == "OP" and following.text == "(":
                    return self._call(token), True
                return self._symbol(token), True
            case _:
                found = repr(token.text) if token.text else "the end"
                raise syntax_error("WIR550", f"expected an expression, found {found}", token)

    def _symbol(self, token: Token) -> Expr:
        kind = self._symbol_kinds.get(token.text)
        if kind is None:
            raise syntax_error(
                "WIR551", f"symbol {token.text} is not declared", token, hint="declare it, or check its name"
            )
        try:
            return Sym(token.text, kind)
        except ExpressionError as error:
            raise syntax_error("WIR551", error.message, token) from error

    def _call(self, name: Token) -> Expr:
        self._expect("(")
        if name.text in _DIM_ATOMS or name.text in _VALUE_ATOMS:
            e = self._value_atom(name)
        else:
            args = [self._nested(self.parse)]
            while self._accept(","):
                args.append(self._nested(self.parse))
            e = _function(name, tuple(args))
        self._expect(")")
        return e

    def _value_atom(self, name: Token) -> Expr:
        token = self._tokens.next()
        if token.kind != "VALUE":
            raise syntax_error("WIR550", f"{name.text} takes a value such as %x, found {token.text!r}", token)
        value = self._values.get(token.text.removeprefix("%"))
        if value is None:
            raise syntax_error("WIR552", f"value {token.text} is not defined here", token)
        if name.text in _VALUE_ATOMS:
            return _VALUE_ATOMS[name.text](value)
        self._expect(",")
        dim = self._tokens.next()
        if dim.kind != "NUMBER" or not dim.text.isdecimal():
            raise syntax_error("WIR550", f"{name.text} takes a dimension number, found {dim.text!r}", dim)
        return _DIM_ATOMS[name.text](value, int(dim.text))

    def _nested(self, read: Callable[[], Expr]) -> Expr:
        self._deepen()
        e = read()
        self._depth -= 1
        return e

    def _deepen(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _too_deep(self._tokens.peek())

    def _accept(self, text: str) -> bool:
        token = self._tokens.peek()
        if token.kind != "OP" or token.text != text:
            return False
        self._tokens.next()
        return True

    def _expect(self, text: str) -> None:
        token = self._tokens.peek()
        if not self._accept(text):
            found = repr(token.text) if token.text else "the end"
            raise syntax_error("WIR550", f"expected {text!r}, found {found}", token)


def _number(token: Token) -> Int | Float:
    try:
        return Int(int(token.text)) if token.text.isdecimal() else Float(float(token.text))
    except ValueError as error:
        raise syntax_error("WIR550", f"{token.text!r} is no number", token) from error


def _is_negative(e: Int | Float) -> bool:
    return e.value < 0


def _negative(e: Int | Float) -> Expr:
    return Int(-e.value) if isinstance(e, Int) else Float(-e.value)


def _negated(term: Expr, bare: bool) -> Expr:
    """The operand of a sum for a term after a minus sign; the inverse of how the printer subtracts."""
    if bare and isinstance(term, Int | Float) and not _is_negative(term):
        return _negative(term)
    if bare and isinstance(term, Mul):
        first = term.args[0]
        if isinstance(first, Int) and first.value > 0:
            return Mul((Int(-first.value), *term.args[1:]))
        if first != Int(-1):
            return Mul((Int(-1), *term.args))
    return Mul((Int(-1), term))


def _function(name: Token, args: tuple[Expr, ...]) -> Expr:
    try:
        match name.text, args:
            case "min", _:
                return Min(args)
            case "max", _:
                return Max(args)
            case "where", (cond, lhs, rhs):
                return Where(cond, lhs, rhs)
            case "ceildiv", (lhs, rhs):
                return CeilDiv(lhs, rhs)
            case text, (arg,) if text in _CONVERSIONS:
                return Convert(_CONVERSIONS[text], arg)
            case text, _ if text in _MATH:
                return MathFn(_MATH[text], args)
            case text, _:
                raise syntax_error("WIR550", f"no function {text} of {len(args)} arguments", name)
    except ExpressionError as error:
        raise syntax_error("WIR550", error.message, name) from error


def _too_deep(token: Token) -> ParseError:
    return syntax_error(
        "WIR553", f"expression nests deeper than {MAX_DEPTH}", token, hint="define a part of it first"
    )
