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
from wrapper_ir.expr.leaves import CONSTANTS, DIM_ATOMS, VALUE_ATOMS, Float, Int, Sym
from wrapper_ir.expr.operator_row import Level, Operator, Operators
from wrapper_ir.expr.operators import ADD, MUL, NOT, OPERATORS, POW
from wrapper_ir.expr.tokens import Lexer, Token, TokenStream, syntax_error

if TYPE_CHECKING:
    from wrapper_ir.values import Value

__all__ = ["ExprParser", "parse_expr"]

MAX_DEPTH = 100
"""Parentheses, calls, signs and nodes may nest this deep; it keeps hostile text from exhausting the stack."""


def parse_expr(
    text: str,
    symbol_kinds: Mapping[str, SymKind] | None = None,
    values: Mapping[str, Value] | None = None,
    operators: Operators = OPERATORS,
) -> Expr:
    """The expression that `text` spells, built node by node without simplification.

    `symbol_kinds` declares the symbols and `values` the values (by name, without `%`) that may occur.
    Raises ParseError WIR550 (syntax), WIR551 (symbol), WIR552 (value), WIR553 (nested too deep).
    """
    tokens = Lexer(text)
    parser = ExprParser(tokens, symbol_kinds or {}, values or {}, operators)
    e = parser.parse()
    if tokens.peek().kind != "EOF":
        raise syntax_error("WIR550", f"unexpected {tokens.peek().text!r} after the expression", tokens.peek())
    return e


class ExprParser:
    """Reads one expression from the stream and leaves the stream right after it."""

    def __init__(
        self,
        tokens: TokenStream,
        symbol_kinds: Mapping[str, SymKind],
        values: Mapping[str, Value],
        operators: Operators = OPERATORS,
    ) -> None:
        self._tokens = tokens
        self._symbol_kinds = symbol_kinds
        self._values = values
        self._operators = operators
        self._depth = 0

    def parse(self) -> Expr:
        """The next expression, of any level."""
        try:
            e = self._climb(Level.OR)[0]
            if self._depth == 0 and e.args and _nests_deep(e):
                raise _too_deep(self._tokens.peek())
            return e
        except RecursionError as error:  # the caller's own stack was deep already
            raise _too_deep(self._tokens.peek()) from error

    def _climb(self, minimum: int) -> tuple[Expr, bool]:
        """Operators of at least `minimum`, and whether the result stands without parentheses of its own."""
        left, bare = self._prefix(minimum)
        # The operands of the sum, product, conjunction or disjunction being read, and which of them it is.
        run: list[Expr] = []
        joined: Operator | None = None
        outer = self._depth
        while True:
            token = self._tokens.peek()
            op = self._infix(token)
            if op is None or op.text.level < minimum:
                self._depth = outer
                return (joined(*run) if joined else left), bare
            self._tokens.next()
            right, right_bare = self._climb(op.text.level + 1)
            if op.arity or op is not joined:
                self._deepen()  # `a // b // c` nests to the left
                left = joined(*run) if joined else left
                joined = None
            if op.arity:
                if left.op is not None and bare and left.op.text.level is op.text.level is Level.COMPARE:
                    raise syntax_error(
                        "WIR550", "comparisons do not chain", token, hint="write `a < b and b < c`"
                    )
                left = op(left, right)
            else:
                if token.text == "-":
                    right = _negated(right, right_bare)
                if joined is None:
                    run = list(left.args) if op is MUL and bare and left.op is MUL else [left]
                    joined = op
                run.append(right)
            bare = True

    def _infix(self, token: Token) -> Operator | None:
        """The operator between two operands that this token is; a minus sign is a sum's."""
        if token.kind not in ("OP", "NAME") or token.text == "**":
            return None
        return ADD if token.text == "-" else self._operators.infix.get(token.text)

    def _prefix(self, minimum: int) -> tuple[Expr, bool]:
        token = self._tokens.peek()
        if token.text == "-" and token.kind == "OP":
            self._tokens.next()
            return self._nested(self._signed), True
        if token.text == "not" and token.kind == "NAME":
            if minimum > Level.NOT:
                raise syntax_error("WIR550", "`not` needs parentheses here", token)
            self._tokens.next()
            return self._nested(lambda: NOT(self._climb(Level.NOT)[0])), True
        return self._power()

    def _signed(self) -> Expr:
        """What follows a minus sign: a number takes it up, anything else is multiplied by -1."""
        operand, bare = self._prefix(Level.SIGN)
        return (_negative(operand) if bare else None) or MUL(Int(-1), operand)

    def _power(self) -> tuple[Expr, bool]:
        base, bare = self._atom()
        token = self._tokens.peek()
        if token.text != "**" or token.kind != "OP":
            return base, bare
        self._tokens.next()
        return POW(base, self._nested(lambda: self._prefix(Level.SIGN)[0])), True

    def _atom(self) -> tuple[Expr, bool]:
        token = self._tokens.next()
        match token.kind:
            case "NUMBER":
                return _number(token), True
            case "OP" if token.text == "(":
                inner = self._nested(self.parse)
                self._expect(")")
                return inner, False
            case "NAME" if token.text in CONSTANTS:
                return CONSTANTS[token.text], True
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
        if name.text in DIM_ATOMS or name.text in VALUE_ATOMS:
            e = self._value_atom(name)
        else:
            args = [self._nested(self.parse)]
            while self._accept(","):
                args.append(self._nested(self.parse))
            e = self._function(name, tuple(args))
        self._expect(")")
        return e

    def _function(self, name: Token, args: tuple[Expr, ...]) -> Expr:
        op = self._operators.calls.get(name.text)
        try:
            if op is None or (op.arity and op.arity != len(args)):
                raise syntax_error("WIR550", f"no function {name.text} of {len(args)} arguments", name)
            return op(*args)
        except ExpressionError as error:
            raise syntax_error("WIR550", error.message, name) from error

    def _value_atom(self, name: Token) -> Expr:
        token = self._tokens.next()
        if token.kind != "VALUE":
            raise syntax_error("WIR550", f"{name.text} takes a value such as %x, found {token.text!r}", token)
        value = self._values.get(token.text.removeprefix("%"))
        if value is None:
            raise syntax_error("WIR552", f"value {token.text} is not defined here", token)
        if name.text in VALUE_ATOMS:
            return VALUE_ATOMS[name.text](value)
        self._expect(",")
        dim = self._tokens.next()
        if dim.kind != "NUMBER" or not dim.text.isdecimal():
            raise syntax_error("WIR550", f"{name.text} takes a dimension number, found {dim.text!r}", dim)
        return DIM_ATOMS[name.text](value, int(dim.text))

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
    except ExpressionError as error:
        raise syntax_error("WIR550", error.message, token) from error
    except ValueError as error:
        raise syntax_error("WIR550", f"{token.text[:40]!r} is no number", token) from error


def _negative(e: Expr) -> Expr | None:
    """The number with a minus sign; None for what is not a number, or has one already."""
    match e:
        case Int(value) if value >= 0:
            return Int(-value)
        case Float(value) if not value < 0:
            return Float(-value)
        case _:
            return None


def _negated(term: Expr, bare: bool) -> Expr:
    """The operand of a sum for a term after a minus sign; the inverse of how the printer subtracts."""
    if bare and (negative := _negative(term)) is not None:
        return negative
    if bare and term.op is MUL:
        first = term.args[0].constant
        if type(first) is int and first > 0:
            return MUL(Int(-first), *term.args[1:])
        if type(first) is not int or first != -1:
            return MUL(Int(-1), *term.args)
    return MUL(Int(-1), term)


def _nests_deep(e: Expr) -> bool:
    """Whether nodes nest deeper than every walk over them may; one pair of parentheses can hold several."""
    level = {e}
    for _ in range(MAX_DEPTH):
        level = {arg for node in level for arg in node.args}
        if not level:
            return False
    return True


def _too_deep(token: Token) -> ParseError:
    return syntax_error(
        "WIR553", f"expression nests deeper than {MAX_DEPTH}", token, hint="define a part of it first"
    )
