"""Gives the functions of a loaded module the code of the same source in another file, where debuggers then find them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import unwrap
from types import CodeType, FunctionType
from typing import cast


def relocate_functions(scope: Mapping[str, object], source: str, old: str, new: str) -> int:
    """Lets the functions of a module run from the file `new`, whose text is `source`, in place of the file `old`, which
    has the same text; says how many there are. `scope` are the module's globals.

    A debugger knows a function by the file name in its code, so each function and method gets the code that compiling the source
    under the new name gives. Calls that are running go on with the code that they began with.
    """
    codes = {(c.co_name, c.co_firstlineno): c for c in _codes(compile(source, new, "exec"))}
    moved = 0
    for function in _functions(scope):
        code = function.__code__
        found = codes.get((code.co_name, code.co_firstlineno))
        if code.co_filename == old and found is not None and found.co_freevars == code.co_freevars:
            function.__code__ = found
            moved += 1
    return moved


def _functions(scope: Mapping[str, object]) -> Iterator[FunctionType]:
    for value in list(scope.values()):
        if isinstance(value, FunctionType):
            yield cast("FunctionType", unwrap(value))
        elif isinstance(value, type) and value.__module__ == scope.get("__name__"):
            yield from (f for f in vars(value).values() if isinstance(f, FunctionType))


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
