"""Parser of expressions, over the tokens of a program or of a single expression.

Grammar, lowest precedence first. `not` and comparisons do not chain, the other operators join into one node
with many operands, and parentheses always start a new node:

    expr    := or ; or := and ("or" and)* ; and := not ("and" not)* ; not := "not" not | compare
    compare := sum [("==" | "!=" | "<" | "<=" | ">" | ">=") sum]
    sum     := product (("+" | "-") product)*
    product := factor (("*" | "//" | "%" | "/") factor)*
    factor  := "-" factor | power
    power   := atom ["**" factor]
    atom    := NUMBER | "inf" | "nan" | "true" | "false" | symbol | "(" expr ")" | function "(" args ")"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.base import Expr, Operator, Operators, SymKind
from wrapper_ir.expr.leaves import CONSTANTS, Float, Int, Sym
from wrapper_ir.expr.operators import ADD, MUL, NOT, OPERATORS, POW
from wrapper_ir.expr.spelling import Level
from wrapper_ir.support.tokens import MAX_DEPTH, Cursor, Source, kind_of

E = TypeVar("E", bound=Expr)


class ExprParser(Cursor):
    """Parses expressions over declared symbols."""

    def __init__(self, source: Source, operators: Operators = OPERATORS) -> None:
        super().__init__(source)
        self.kinds: dict[str, SymKind] = {}
        self._operators = operators
        self._depth = 0

    def expression(self) -> Expr:
        """Parses an expression of any precedence."""
        self._depth = 0
        try:
            e = self._climb(Level.OR)[0]
        except RecursionError:  # the caller's stack was already deep
            self._too_deep()
        if e.args and _nests_deep(e):
            self._too_deep()
        return e

    def _climb(self, minimum: int) -> tuple[Expr, bool]:
        """Parses operators of level `minimum` or higher; returns also whether there are no parentheses."""
        lhs, bare = self._prefix(minimum)
        # The operands, and the operator, of the sum, product, conjunction or disjunction being parsed.
        run: list[Expr] = []
        joined: Operator | None = None
        outer = self._depth
        while True:
            start = self.at
            op = self._infix()
            if op is None or op.text.level < minimum:
                self._depth = outer
                return (joined(*run) if joined else lhs), bare
            self.at += 1
            rhs, right_bare = self._climb(op.text.level + 1)
            if op.arity or op is not joined:
                self._deepen()  # `a // b // c` nests to the left
                lhs = joined(*run) if joined else lhs
                joined = None
            if op.arity:
                if lhs.op is not None and bare and lhs.op.text.level is op.text.level is Level.COMPARE:
                    self.fail("WIR550", "comparisons do not chain", start, hint="write `a < b and b < c`")
                lhs = op(lhs, rhs)
            else:
                if self.tokens[start] == "-":
                    rhs = _negated(rhs, right_bare)
                if joined is None:
                    run = list(lhs.args) if op is MUL and bare and lhs.op is MUL else [lhs]
                    joined = op
                run.append(rhs)
            bare = True

    def _infix(self) -> Operator | None:
        """Returns the infix operator at the cursor; a minus sign continues a sum."""
        token = self.tokens[self.at]
        if token == "-":
            return ADD
        return None if token == "**" else self._operators.infix.get(token)

    def _prefix(self, minimum: int) -> tuple[Expr, bool]:
        if self.accept("-"):
            return self._nested(self._signed), True
        if self.tokens[self.at] == "not":
            if minimum > Level.NOT:
                self.fail("WIR550", "`not` needs parentheses here")
            self.at += 1
            return self._nested(lambda: NOT(self._climb(Level.NOT)[0])), True
        base, bare = self._atom()
        if not self.accept("**"):
            return base, bare
        return POW(base, self._nested(lambda: self._prefix(Level.SIGN)[0])), True

    def _signed(self) -> Expr:
        """Parses the operand of a minus sign: a number is negated, any other operand multiplied by -1."""
        operand, bare = self._prefix(Level.SIGN)
        return (_negative(operand) if bare else None) or MUL(Int(-1), operand)

    def _atom(self) -> tuple[Expr, bool]:
        if self.accept("("):
            inner = self._nested(self._whole)
            self.expect(")", "WIR550")
            return inner, False
        token = self.tokens[self.at]
        match kind_of(token):
            case "NUMBER":
                e: Expr = self._number(token)
            case "NAME" if token in CONSTANTS:
                e = CONSTANTS[token]
            case "NAME" if self.tokens[self.at + 1] == "(":
                return self._call(token), True
            case "NAME":
                e = self._named(token)
            case _:
                self.unexpected("an expression", "WIR550")
        self.at += 1
        return e, True

    def _whole(self) -> Expr:
        return self._climb(Level.OR)[0]

    def _number(self, token: str) -> Int | Float:
        try:
            return self._made(lambda: Int(int(token)) if token.isdecimal() else Float(float(token)))
        except ValueError:
            self.fail("WIR550", f"{token[:40]!r} is not a number")

    def _named(self, name: str) -> Expr:
        kind = self.kinds.get(name)
        if kind is None:
            self.undeclared(name, self.at)
        return self._made(lambda: Sym(name, kind), "WIR551")

    def undeclared(self, symbol: str, start: int) -> NoReturn:
        """Raises ParseError WIR551 for the symbol at `start`."""
        hint = "declare it, or check its name"
        self.fail("WIR551", f"symbol {symbol} is not declared", start, hint=hint)

    def _call(self, name: str) -> Expr:
        start = self.at
        self.at += 2
        e = self.atom(name) or self._applied(name, self.several(lambda p: p._nested(p._whole)), start)
        self.expect(")", "WIR550")
        return e

    def atom(self, word: str) -> Expr | None:
        """Parses the arguments of the atom of this name, after its parenthesis; None for an unknown name.

        Here every name is unknown; `wrapper_ir.ir.atoms` overrides it.
        """
        return None

    def _applied(self, name: str, args: list[Expr], start: int) -> Expr:
        op = self._operators.calls.get(name)
        if op is None or (op.arity and op.arity != len(args)):
            self.fail("WIR550", f"no function {name} of {len(args)} arguments", start)
        return self._made(lambda: op(*args), start=start)

    def _made(self, make: Callable[[], E], code: str = "WIR550", start: int | None = None) -> E:
        try:
            return make()
        except ExpressionError as error:
            self.fail(code, error.message, start)

    def _nested(self, read: Callable[[], Expr]) -> Expr:
        self._deepen()
        e = read()
        self._depth -= 1
        return e

    def _deepen(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._too_deep()

    def _too_deep(self) -> NoReturn:
        self.fail("WIR553", f"expression nests deeper than {MAX_DEPTH}", hint="define a part of it first")


def _negative(e: Expr) -> Expr | None:
    """Returns a nonnegative number negated; None for any other node."""
    match e:
        case Int(value) if value >= 0:
            return Int(-value)
        case Float(value) if not value < 0:
            return Float(-value)
        case _:
            return None


def _negated(term: Expr, bare: bool) -> Expr:
    """Returns the operand of a sum for a term after a minus sign, inverting the printer's subtraction."""
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
    """Returns whether nodes nest too deeply for recursive walks; parentheses can contain several levels."""
    level = {e}
    for _ in range(MAX_DEPTH):
        level = {arg for node in level for arg in node.args}
        if not level:
            return False
    return True
