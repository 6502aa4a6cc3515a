"""All ways to run a program on flat arguments and to call an artifact."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fx_converter
import py_wrapper
import wrapper_ir
from fx_converter import FxOptions
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.plugins.registry import machine
from wrapper_ir_runtime.interp import Interpreter
from wrapper_ir_runtime.interp.options import InterpOptions

Run = Callable[[list[Any]], Any]  # Any: inputs of every kind, right and wrong


def artifact_of(body: str) -> Artifact:
    """Returns a verified program from its text, without the first lines."""
    program = wrapper_ir.parse_program(f"wir 0.5\ntarget cpu\n\n{body}")
    wrapper_ir.verify(program)
    return bare_artifact(program)


def engines(artifact: Artifact, folder: Path, guarded: ir.Guarded = ir.NOT_GUARDED) -> Mapping[str, Run]:
    """Callables over flat arguments, by the name of the engine and of the form of its call."""
    interpreter = Interpreter(artifact, machine("torch"), InterpOptions(guarded=guarded))
    python = py_wrapper.compile(artifact, py_wrapper.PyOptions(guarded=guarded))
    # A folder for each: Python considers a module's bytecode current if its text has the same length and
    # second.
    folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=folder))
    (path, *_) = py_wrapper.write(artifact, place, py_wrapper.PyOptions(guarded=guarded))
    written = _module(path)
    found: dict[str, Run] = {
        "interpreter": interpreter.boxed,
        "interpreter, model": lambda args: interpreter(*args),
        "python": python.boxed,
        "python, model": lambda args: python(*args),
        "python, folder": written.boxed,
        "python, folder, model": lambda args: written.forward(*args),
    }
    compiled = fx_converter.compile(artifact, FxOptions(guarded=guarded))
    found |= {"fx": compiled.boxed, "fx, model": lambda args: compiled(*args)}
    for calls in ("direct", "hop"):
        for convention in ("flat", "model"):
            options = FxOptions(kernel_calls=calls, convention=convention, guarded=guarded)
            module = fx_converter.convert(artifact, options)
            found[f"fx, {calls}, {convention}"] = _called(module)
            if guarded == ir.NOT_GUARDED:
                file = folder / f"{calls}_{convention}.wir"
                fx_converter.save(module, file)
                found[f"fx, {calls}, {convention}, loaded"] = _called(fx_converter.load(file))
    return found


def _called(module: Callable[..., Any]) -> Run:
    return lambda args: module(*args)


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("written", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
