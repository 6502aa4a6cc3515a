"""Operators' results, and the storages of inputs, are compared with the program's types in each call, by
every engine and form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cpp_wrapper
import fx_converter
import py_wrapper
from cpp_wrapper import CppOptions
from inductor_frontend import capture
from tests.common.input_engines import artifact_of, engines
from tests.common.storage_cases import cut
from tests.soundness.result_cases import (
    NAMESPACE,
    PROGRAM,
    RESULTS,
    SIZE,
    attention,
    input_text,
    register,
    result_text,
)
from wrapper_ir import check, parse_program
from wrapper_ir.errors import ExecutionError
from wrapper_ir.operators.library import REBINDING
from wrapper_ir_runtime.interp import call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def library() -> Iterator[None]:
    made = register()
    yield
    made._destroy()


@pytest.mark.slow
@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("name", RESULTS)
def test_a_result_of_another_type_is_refused(name: str, folder: Path) -> None:
    text = result_text(name)
    for engine, run in engines(artifact_of(text), folder).items():
        for _ in range(2):
            with pytest.raises(ExecutionError, match=r"WIR92[17]"):
                pytest.fail(f"{engine} takes it: {run([torch.ones(8)])}")


@pytest.mark.slow
@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("target", ["aten::neg(Tensor self)", f"{NAMESPACE}::same(Tensor x)"])
def test_a_result_of_the_declared_type_is_not(target: str, folder: Path) -> None:
    name = target.partition("(")[0]
    text = PROGRAM.replace("SCHEMA", f"{target} -> Tensor").replace("TARGET", f"{name}(%x)")
    for engine, run in engines(artifact_of(text.replace("TYPE", "f32[8]")), folder).items():
        (result,) = run([torch.ones(8)])
        torch.testing.assert_close(result.abs(), torch.ones(8), msg=engine)


@pytest.mark.slow
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_an_input_whose_storage_wascut(is_dynamic: bool, folder: Path) -> None:
    text = input_text(is_dynamic)
    empty = torch.ones(8)
    empty.untyped_storage().resize_(0)  # nothing reads it
    for engine, run in engines(artifact_of(text), folder).items():
        for _ in range(2):
            (result,) = run([cut(32), empty])
            assert result.tolist() == [-2, -3], engine
            (result,) = run([cut(44, offset=3), empty])
            assert result.tolist() == [-5, -6], engine
            for nbytes, offset in ((0, 0), (16, 0), (31, 0), (32, 3), (43, 3)):
                needed = 32 + 4 * offset
                message = f"a storage of at least {needed} bytes, got one of {nbytes}"
                with pytest.raises(ExecutionError, match=re.escape(message)):
                    pytest.fail(f"{engine} takes {nbytes}: {run([cut(nbytes, offset), empty])}")


@pytest.mark.slow
def test_a_cut_input_of_a_compiled_kernel() -> None:
    """Whose launcher brings native code for the check, also of inputs that torch.compile guards."""

    def model(x: Tensor, y: Tensor) -> Tensor:
        return (x + y).relu() @ y

    x, y = torch.ones(4, 4), torch.ones(4, 4)
    for emitter in ("python", "fx", "cpp"):
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="wrapper_ir", options={"emitter": emitter})
        torch.testing.assert_close(compiled(x, y), model(x, y))
        short = torch.ones(4, 4)
        short.untyped_storage().resize_(0)
        with pytest.raises(ExecutionError, match="storage of at least 64 bytes, got one of 0"):
            compiled(x, short)
        torch.testing.assert_close(compiled(x, y), model(x, y))


def test_rebinding_operators_are_named_as_torch_names_them() -> None:
    installed = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    assert installed >= REBINDING


@pytest.mark.parametrize("name", sorted(REBINDING))
def test_a_rebinding_operator_is_refused(name: str) -> None:
    text = f'wir 0.5\ntarget cpu\n\nextern "{name}.x(Tensor(a!) self) -> ()"\n\nfunc @main(%x: f32[8]) {{\n  call {name}.x(%x)\n  return\n}}\n'
    assert [found.code for found in check(parse_program(text))] == ["WIR282"]


@pytest.mark.slow
@pytest.mark.parametrize("weights", [False, True])
def test_an_undefined_result(weights: bool, tmp_path: Path) -> None:
    query = torch.linspace(0, 1, 2 * 4 * SIZE).reshape(2, 4, SIZE)
    wanted = attention(query, weights)
    assert (wanted[1] is None) is not weights

    def model(x: Tensor) -> tuple[Any, ...]:
        return attention(x, weights)

    artifact = capture(model, (query,))
    library = cpp_wrapper.build(artifact, tmp_path / "model.so", CppOptions(opt_level=0))
    runs: dict[str, Callable[[Tensor], Any]] = {
        "interpreter": lambda x: call(artifact, py_wrapper.TORCH_MACHINE, (x,), {}),
        "python": py_wrapper.compile(artifact),
        "fx": fx_converter.convert(artifact),
        "cpp": cpp_wrapper.load(library),
    }
    for emitter in ("python", "fx", "cpp"):
        torch._dynamo.reset()
        runs[f"torch.compile {emitter}"] = torch.compile(
            model, backend="wrapper_ir", options={"emitter": emitter}
        )
    for name, run in runs.items():
        torch.testing.assert_close(tuple(run(query)), wanted, msg=name)
