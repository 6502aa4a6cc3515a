"""Expressions as results of one program, and that program in every engine and form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import fx_converter
import py_wrapper
import wrapper_ir
from fx_converter import FxOptions
from py_wrapper import TORCH_MACHINE, PyOptions
from tests.common.forms import FORMS
from tests.soundness.expression_cases import EXPECTED, EXPRESSIONS
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import code_of
from wrapper_ir.expr import Number, SymKind
from wrapper_ir_runtime.interp import run

KINDS = {"a": SymKind.INT, "b": SymKind.INT, "f": SymKind.FLOAT, "g": SymKind.FLOAT, "p": SymKind.BOOL}
"""Symbols, which are the program's arguments after the number of an expression."""

NAMED: Mapping[str, list[str]] = {
    kind: [t for t in dict.fromkeys(text for text, _, _ in EXPECTED) if ir.parse_expr(t, KINDS).kind == kind]
    for kind in EXPRESSIONS
}
"""The expressions whose values are written out, by kind."""

# Any in this file: arguments and results of any program
Run = Callable[[list[Any]], Any]
Outcome = Any
"""Results as text, which separates 1 from 1.0, and 0.0 from -0.0; or the code of an error."""


def program_of(texts: Sequence[str], kind: str) -> Artifact:
    """Returns a program that returns the expression of a given number."""
    declared = "".join(f"symbol {name} : {kind} unbacked\n" for name, kind in KINDS.items())
    params = ", ".join(f"%{name}: {kind}" for name, kind in KINDS.items())
    defined = "".join(f"  define {name} = item(%{name})\n" for name in KINDS)
    branches = ", ".join(f"@e{number}" for number in range(len(texts)))
    text = f"wir 0.5\ntarget cpu\n\n{declared}\nfunc @main(%i: int, {params}) {{\n{defined}"
    text += f"  %r = switch %i [{branches}] () : {kind}\n  return %r\n}}\n"
    for number, e in enumerate(texts):
        text += f"func @e{number}() captures({', '.join(KINDS)}) {{\n  return {e}\n}}\n"
    program = wrapper_ir.parse_program(text)
    wrapper_ir.verify(program)
    return bare_artifact(program)


def engines(artifact: Artifact, folder: Path) -> Mapping[str, Run]:
    """All engines and forms but C++."""
    found: dict[str, Run] = {
        "interpreter": lambda args: run(artifact, args, TORCH_MACHINE),
        "python": py_wrapper.compile(artifact).boxed,
        "python, persistent": py_wrapper.compile(artifact, PyOptions(persistent_buffers=True)).boxed,
        "fx": fx_converter.compile(artifact).boxed,
        "fx, persistent": fx_converter.compile(artifact, FxOptions(persistent_buffers=True)).boxed,
    }
    for form in FORMS:
        module = fx_converter.convert(artifact, FxOptions(kernel_calls=form))
        file = folder / f"{form}.wir"
        fx_converter.save(module, file)
        found[f"fx, {form}"] = _unpacked(module)
        found[f"fx, {form}, loaded"] = _unpacked(fx_converter.load(file))
    return found


def _unpacked(module: Callable[..., Any]) -> Run:
    return lambda args: module(*args)


def values(env: Mapping[str, Number]) -> list[Number]:
    """Returns arguments for the symbols; 1 by default."""
    given = {"a": 1, "b": 1, "f": 1.0, "g": 1.0, "p": True, **env}
    return [given[name] for name in KINDS]


def outcome(call: Run, args: Sequence[Any]) -> Outcome:
    """Returns the outcome of a call."""
    try:
        return list(map(repr, call(list(args))))
    except Exception as error:
        code = code_of(error)
        assert re.fullmatch(r"[A-Z]+\d+", code), f"no code: {error!r}"
        return code
