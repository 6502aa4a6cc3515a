"""Rewrites Triton functions so that the interpreter can call them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import FunctionType
from typing import TYPE_CHECKING

from wrapper_ir.support.python_syntax import parse_module

if TYPE_CHECKING:
    from triton.runtime.jit import JITFunction


class Rewriter:
    """Rewrites each function once: assigned values become tensors, as in a compiled kernel.

    The functions get a copy of their module's namespace, so that modules are not modified.
    """

    def __init__(self) -> None:
        self._done: dict[FunctionType, FunctionType] = {}

    def __call__(self, function: JITFunction) -> FunctionType:
        """The interpreter's version of `function`."""
        raw: FunctionType = function.fn
        if raw not in self._done:
            self._done[raw] = _rewritten(raw)
        return self._done[raw]


def _rewritten(raw: FunctionType) -> FunctionType:
    from triton.runtime import interpreter

    lines, first = inspect.getsourcelines(raw)
    tree = parse_module(textwrap.dedent("".join(lines)))
    [definition] = tree.body
    # @triton.jit accepts only functions
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    tree = interpreter.ASTTransformer().visit(tree)
    ast.fix_missing_locations(tree)
    ast.increment_lineno(tree, first - 1)
    names = {**raw.__globals__, "interpreter_semantic": interpreter.interpreter_semantic}
    exec(compile(tree, raw.__code__.co_filename, "exec", dont_inherit=True), names)
    rewritten: FunctionType = names[definition.name]
    return rewritten
