"""Replaces the code of a loaded module's functions by that of the same source in another file, for
debuggers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import unwrap
from types import CodeType, FunctionType, MethodType

from wrapper_ir_runtime.model_calls import python_function


def relocate_functions(scope: Mapping[str, object], source: str, old: str, new: str) -> int:
    """Makes the functions of a module run from the file `new` instead of `old`; returns their number.

    `source` is the text of both files. `scope` contains the module's globals. Debuggers identify functions by
    the file name in their code, so each function and method gets the code compiled under the new name.
    Running calls continue with their code.
    """
    codes = {(c.co_name, c.co_firstlineno): c for c in _codes(compile(source, new, "exec"))}
    count = 0
    for function in _functions(scope):
        code = function.__code__
        replacement = codes.get((code.co_name, code.co_firstlineno))
        if (
            code.co_filename == old
            and replacement is not None
            and replacement.co_freevars == code.co_freevars
        ):
            function.__code__ = replacement
            count += 1
    return count


def _functions(scope: Mapping[str, object]) -> Iterator[FunctionType]:
    for value in list(scope.values()):
        match value:
            case FunctionType() | MethodType():
                yield python_function(unwrap(value))
            case type() if value.__module__ == scope.get("__name__"):
                yield from (f for f in vars(value).values() if isinstance(f, FunctionType))
            case _:
                pass


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
