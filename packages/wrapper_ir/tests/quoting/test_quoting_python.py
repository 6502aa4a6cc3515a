"""Text of a program in Python source: arbitrary text never becomes code."""

from __future__ import annotations

import ast
import keyword
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
from packages.wrapper_ir.tests.quoting.hostile import PAYLOAD, did_fire, texts

from wrapper_ir.support.quoting import (
    is_python_name,
    python_attribute,
    python_comment,
    python_docstring,
    python_identifier,
    python_keyword,
    python_names,
    python_string,
)


def one_line(text: str) -> bool:
    return text.isprintable()  # so that no reader of lines, and no editor, breaks or turns it


def test_the_payload_fires() -> None:
    exec(compile(f'"""{PAYLOAD}"""\n{PAYLOAD}', "<test>", "exec"), {})
    assert did_fire()


@given(texts(0))
def test_strings(text: str) -> None:
    literal = python_string(text)
    assert one_line(literal)
    assert ast.literal_eval(literal) == text


@given(texts(0))
def test_comments(text: str) -> None:
    comment = python_comment(text)
    assert one_line(comment)
    source = f"a = 1\n# {comment}\nb = 2\n# {comment}"
    assert ast.dump(ast.parse(source)) == ast.dump(ast.parse("a = 1\n\nb = 2\n"))


@given(texts(0), texts(0))
def test_docstrings(text: str, other: str) -> None:
    def shown(x: str) -> str:
        return x.encode("utf-8", "backslashreplace").decode()  # Python 3.13 compiles no lone surrogates

    inner = python_docstring(text)
    assert one_line(inner)
    tree = ast.parse(f'"""{inner}"""')
    assert len(tree.body) == 1
    assert ast.get_docstring(tree, clean=False) == shown(text)
    tree = ast.parse(f'"""{inner}\n    {python_docstring(other)}\n"""\nx = 1\n')
    assert len(tree.body) == 2
    assert ast.get_docstring(tree, clean=False) == f"{shown(text)}\n    {shown(other)}\n"
    compile(tree, "<test>", "exec")


@given(texts(0))
def test_identifiers(text: str) -> None:
    name = python_identifier(text)
    assert name.isascii()
    assert is_python_name(name)
    assert not keyword.issoftkeyword(name)
    scope: dict[str, object] = {}
    exec(compile(f"{name} = 1", "<test>", "exec"), scope)
    assert scope.pop("__builtins__")
    assert scope == {name: 1}


@given(st.lists(texts(0), max_size=20), st.lists(texts(0).map(python_identifier), max_size=5))
def test_names_are_distinct(wishes: list[str], taken: list[str]) -> None:
    namer = python_names(taken)
    given_out = [namer(wish) for wish in wishes]
    assert len({*given_out, *taken}) == len(given_out) + len(set(taken))
    assert all(map(is_python_name, given_out))
    assert not any(n.startswith("__") and n.endswith("__") for n in given_out)


@given(texts(0))
def test_names_that_callers_use(text: str) -> None:
    if is_python_name(text):
        scope: dict[str, object] = {}
        exec(compile(f"def f(*, {text}): return {text}", "<test>", "exec"), scope)
        assert eval(f"f({text}=3)", scope) == 3
        assert eval("f(**kwargs)", {**scope, "kwargs": {text: 4}}) == 4


def test_names_that_python_spells_otherwise_are_none() -> None:
    assert not any(map(is_python_name, ("ﬁ", "class", "__debug__", "", "1", "a b", "True")))
    assert all(map(is_python_name, ("größe", "名", "_", "match", "print", "__init__")))


@given(texts(0))
def test_attributes(text: str) -> None:
    holder = SimpleNamespace()
    setattr(holder, text, 5)
    assert one_line(python_attribute("holder", text))
    assert eval(python_attribute("holder", text), {"holder": holder}) == 5


@given(texts(0))
def test_keywords(text: str) -> None:
    call = f"dict({python_keyword(text, '6')})"
    assert one_line(call)
    assert eval(call) == {text: 6}
    assert not did_fire()
