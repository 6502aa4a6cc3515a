"""The work on a graph is linear in the program: twice the program, twice the executed lines, including names that torch assigns."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch.fx.graph

import fx_converter
import wrapper_ir
from fx_converter import FxOptions, boxed_source
from fx_converter.kernels import KernelCalls
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact

COUNTED = (str(Path(fx_converter.__file__).parent), str(torch.fx.graph.__file__))


class Runtime:
    kind = "none"

    def load(self, kernel: Any, target: ir.Target) -> Callable[..., None]:
        return print

    def load_all(self, kernels: Any, target: ir.Target) -> dict[str, Callable[..., None]]:
        return dict.fromkeys((kernel.name for kernel in kernels), print)


def ops(n: int) -> str:
    text = 'kernel foreign @k_0 runtime "none" (read f32* x, write f32* y) {{{\nk\n}}}\n\n'
    text += "func @main(%x: f32[4]) {\n"
    for i in range(n):
        text += (
            f"  %s{i} = alloc_storage 64\n  %a{i} = view %s{i} : f32[4]\n  %i{i} = view %s{i} + 16 : i32[4]\n"
        )
        text += f"  launch @k_0(%x, %a{i})\n  copy %i{i}, %a{i}\n  free %s{i}\n"
    return text + "  return %x\n}\n"


def constants(n: int) -> str:
    text = "".join(f"const %c{i} : f32[4]\n" for i in range(n)) + "\nfunc @main(%x: f32[4]) {\n"
    return text + "".join(f"  copy %x, %c{i}\n" for i in range(n)) + "  return %x\n}\n"


def symbols(n: int) -> str:
    text = "".join(f"symbol s{i} : int backed [2, 9] hint 4\nsymbol u{i} : int unbacked\n" for i in range(n))
    params = ", ".join(f"%x{i}: f32[s{i}], %n{i}: int" for i in range(n))
    text += f"\nfunc @main({params}) {{\n"
    text += "".join(f"  define s{i} = size(%x{i}, 0)\n  define u{i} = item(%n{i})\n" for i in range(n))
    return text + "".join(f"  %y{i} = alloc f32[s{i}]\n" for i in range(n)) + "  return s0*u0\n}\n"


def functions(n: int) -> str:
    text = "func @main(%x: f32[4]) {\n"
    text += "".join(f"  %y{i} = call_subgraph @f{i}(%x) : f32[4]\n" for i in range(n)) + "  return %x\n}\n"
    body = "(%x: f32[4]) {\n  %y = alloc f32[4]\n  copy %y, %x\n  return %y\n}\n"
    return text + "".join(f"\nfunc @f{i}{body}" for i in range(n))


def artifact(text: str) -> Artifact:
    program = wrapper_ir.parse_program(f"wir 0.5\ntarget cpu\n\n{text}")
    data = TensorData(ir.DType.F32, memoryview(bytes(16)))
    held = tuple(dataclasses.replace(c, data_hash=data.sha256()) for c in program.constants)
    program = dataclasses.replace(program, constants=held)
    return bare_artifact(program, {c.value.name: data for c in held})


def lines(run: Callable[[], Any]) -> tuple[int, Any]:
    """Returns the number of executed lines of this package and of torch's graphs, and the result."""
    count = 0

    def in_a_call(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += 1
        return in_a_call

    def at_a_call(frame: FrameType, event: str, arg: object) -> Any:
        return in_a_call(frame, event, arg) if frame.f_code.co_filename.startswith(COUNTED) else None

    before = sys.gettrace()
    sys.settrace(at_a_call)
    try:
        result = run()
    finally:
        sys.settrace(before)
    return count, result


def stages(text: str, form: KernelCalls, path: Path) -> dict[str, int]:
    options = FxOptions(kernel_calls=form, convention="flat", find_runtime=lambda kind: Runtime())
    whole = artifact(text)
    counts = {}
    counts["convert"], module = lines(lambda: fx_converter.convert(whole, options))
    counts["source"], _ = lines(lambda: boxed_source(module))
    counts["save"], _ = lines(lambda: fx_converter.save(module, path))
    counts["load"], _ = lines(lambda: fx_converter.load(path, options))
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("form", ["direct", "hop"])
@pytest.mark.parametrize("made", [ops, constants, symbols, functions])
def test_twice_the_program_is_twice_the_work(
    made: Callable[[int], str], form: KernelCalls, tmp_path: Path
) -> None:
    stages(made(2), form, tmp_path / "first.wir")  # work that is done once per process
    small, large = (stages(made(n), form, tmp_path / "graph.wir") for n in (60, 120))
    for stage, count in small.items():
        assert large[stage] <= 2.05 * count, stage
