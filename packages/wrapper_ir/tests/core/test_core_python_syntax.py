"""Trees of Python text, although CPython may refuse correct text if two threads parse at once."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from wrapper_ir.support.python_syntax import parse_expression, parse_module


@pytest.mark.parametrize("parse", [parse_module, parse_expression])
def test_a_parser_in_another_threads_way_is_asked_again(
    parse: Callable[[str], ast.AST], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = ast.parse, []

    def disturbed(*args: str, **kwargs: str) -> ast.AST:
        calls.append(args)
        if len(calls) < 3:
            raise SystemError("AST constructor recursion depth mismatch (before=60, after=56)")
        return original(*args, **kwargs)  # type: ignore[call-overload,no-any-return]  # passed on

    monkeypatch.setattr(ast, "parse", disturbed)
    assert ast.unparse(parse("a + 1")) == "a + 1"
    assert len(calls) == 3


@pytest.mark.parametrize("parse", [parse_module, parse_expression])
def test_wrong_text_is_refused_at_once(parse: Callable[[str], ast.AST]) -> None:
    with pytest.raises(SyntaxError):
        parse("a +")
