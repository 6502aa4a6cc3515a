"""A callable with the model's own signature over a built library, which torch's own runner opens."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import torch

from cpp_wrapper._compat import open_runner
from cpp_wrapper.emit.program import METADATA_VERSION
from cpp_wrapper.errors import CacheError, CppError, IsaError, kernel_failure
from wrapper_ir.errors import ArgumentError, ExecutionError, TensorCheckError
from wrapper_ir.inputs import Input, NumberInput, TensorInput
from wrapper_ir.json import signature_from_json
from wrapper_ir.protocols import CompiledProgram
from wrapper_ir.runtime import InputGuard, TorchCaller, signature_call
from wrapper_ir.signature import Signature

__all__ = ["Runner", "load_library"]

_ERROR = re.compile(r"\[((?:WIR|CPP)\d+)\] (.*)", re.DOTALL)
_DTYPES = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}


class Runner(Protocol):
    """torch's runner of a library."""

    def run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Flat tensors in, flat tensors out; raises RuntimeError."""


def _open(path: Path) -> tuple[ctypes.CDLL, Mapping[str, Any]]:  # Any: JSON
    """A library, and what it says of itself."""
    hint = "build it with cpp_wrapper.build, for this torch and this machine"
    try:
        library = ctypes.CDLL(str(path))
        library.wir_metadata.restype = ctypes.c_char_p
        facts: Mapping[str, Any] = json.loads(library.wir_metadata().decode())
    except (OSError, AttributeError, ValueError) as error:
        raise CacheError("CPP304", f"{path} is not a library of this package: {error}", hint) from error
    if facts.get("version") != METADATA_VERSION:
        raise CacheError("CPP304", f"{path} was built by another edition of this package", hint)
    return library, facts


def load_library(path: Path) -> CompiledProgram:
    """Opens a library. Raises what `cpp_wrapper.load` raises."""
    with TemporaryDirectory(prefix="wir_load_") as folder:
        # The dynamic loader takes a name that it knows for the library that it knows, also where the file was replaced.
        link = Path(folder) / path.name
        link.symlink_to(path)
        library, facts = _open(link)
        try:
            runner: Runner = open_runner(link)
        except RuntimeError as error:
            raise _typed(error, library) from error
    signature = signature_from_json(json.dumps(facts["signature"]))
    inputs = [_input(dict(fields)) for fields in facts["inputs"]]
    boxed = _Boxed(runner, library, inputs, facts["results"])
    return signature_call(_without_copies(signature), boxed, TorchCaller(torch))


def _input(fields: dict[str, Any]) -> Input:  # Any: JSON
    if fields.pop("class") == "NumberInput":
        return NumberInput(**fields)
    lists = {name: tuple(fields[name]) for name in ("sizes", "strides", "apart")}
    return TensorInput(**{**fields, **lists})


def _without_copies(signature: Signature) -> Signature:
    """The library itself writes results back; the caller's tensors have been written then."""
    written = dict.fromkeys((*signature.written, *(back.leaf for back in signature.write_backs)))
    return dataclasses.replace(signature, write_backs=(), written=tuple(written))


class _Boxed:
    """`main` on flat arguments, in a list that it empties."""

    def __init__(
        self, runner: Runner, library: ctypes.CDLL, inputs: Sequence[Input], results: Sequence[str]
    ) -> None:
        self._runner, self._library = runner, library
        self._inputs = tuple(inputs)
        self._numbers = [(n, _DTYPES[i.kind]) for n, i in enumerate(inputs) if isinstance(i, NumberInput)]
        self._guard = InputGuard(torch, *inputs)
        self._results = [n for n, kind in enumerate(results) if kind == "number"]

    def __call__(self, args: list[Any]) -> tuple[Any, ...]:  # Any: the program's own arguments
        given = list(args)
        args.clear()
        if len(given) != len(self._inputs):
            raise ArgumentError("WIR926", f"expected {len(self._inputs)} arguments, got {len(given)}")
        if self._numbers or not self._guard.match(*given):
            self._guard.check(*given)
        for number, dtype in self._numbers:
            given[number] = torch.tensor(given[number], dtype=dtype)
        found = self._run(given)
        for number in self._results:
            found[number] = found[number].item()
        return tuple(found)

    def _run(self, given: list[Any]) -> list[Any]:
        """Autocast does not apply: the program says what its operators compute with."""
        try:
            if torch._C._is_any_autocast_enabled():
                with torch._C._DisableAutocast():
                    return list(self._runner.run(given))
            return self._runner.run(given)
        except RuntimeError as error:
            raise _typed(error, self._library) from None


def _typed(error: RuntimeError, library: ctypes.CDLL) -> Exception:
    """The error that the library's own text names; torch's runner gives another one where an operator failed."""
    told = ctypes.c_char_p()
    library.AOTInductorGetLastError(ctypes.byref(told))
    match = _ERROR.match((told.value or b"").decode(errors="replace"))
    if match is None:
        return error
    code, text = match.groups()
    if code == "CPP406":
        return kernel_failure(code, text)
    if code.startswith("CPP"):
        return IsaError(code, text) if code.startswith("CPP2") else CppError(code, text)
    kind = {"WIR926": ArgumentError, "WIR921": TensorCheckError}.get(code, ExecutionError)
    return kind(code, text)
