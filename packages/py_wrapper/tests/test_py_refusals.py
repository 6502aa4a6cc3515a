"""Unsupported programs are refused with a code, the op, its place and an alternative."""

from __future__ import annotations

import pytest
from packages.py_wrapper.tests.py_case import KERNELS, find_runtime

import py_wrapper
from py_wrapper import PyOptions
from py_wrapper.errors import EmitError
from wrapper_ir import parse_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import ExecutionError, LoweringError, NotSupportedError

HEAD = 'wir 0.5\ntarget cpu\nextern "aten::relu(Tensor self) -> Tensor"\n' + KERNELS
PROVENANCE = 'provenance\n  #1 nodes("relu") ops("aten.relu.default") at("m.py:3")\n'

REFUSED = {
    "stream": ("WIR910", "%y = call aten::relu(%x) stream(1) : f32[4]"),
    "copy_stream": ("WIR910", "copy %x, %x stream(2)"),
    "event_stream": ("WIR911", "%e = record_event stream(1)"),
    "symmetric": ("WIR913", '%s = alloc_storage 64 symmetric("g", 1)'),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_gpu_only(name: str) -> None:
    code, line = REFUSED[name]
    program = parse_program(f"{HEAD}func @main(%x: f32[4]) {{\n  {line}  #1\n  return\n}}\n{PROVENANCE}")
    with pytest.raises(NotSupportedError) as caught:
        py_wrapper.emit(bare_artifact(program))
    assert caught.value.code == code
    message = str(caught.value)
    for part in ("func @main", "^^^", "from relu, aten.relu.default, m.py:3", "hint: "):
        assert part in message, message


INVALID = {
    "undefined_value": "  %y = call aten::relu(%x) : f32[4]\n  drop %y\n  copy %x, %y\n  return\n",
    "undefined_symbol": "  return s9\n",
    "unknown_operator": "  call aten::nothing(%x)\n  return\n",
    "unknown_kernel": "  launch @nothing(%x)\n  return\n",
    "unknown_function": "  call_subgraph @nothing(%x)\n  return\n",
}


@pytest.mark.parametrize("name", sorted(INVALID))
def test_invalid_programs_are_errors_of_ours(name: str) -> None:
    """The verifier refuses them first, before the emitter could fail."""
    program = parse_program(f"{HEAD}symbol s9 : int unbacked\nfunc @main(%x: f32[4]) {{\n{INVALID[name]}}}\n")
    with pytest.raises((EmitError, LoweringError), match=r"PY101|WIR240"):
        py_wrapper.emit(bare_artifact(program))


def test_unknown_operator_of_a_library_that_is_not_loaded() -> None:
    program = parse_program(
        'wir 0.5\ntarget cpu\nextern "nolib::op(Tensor self) -> Tensor"\n'
        "func @main(%x: f32[4]) {\n  %y = call nolib::op(%x) : f32[4]\n  return %y\n}\n"
    )
    with pytest.raises(NotSupportedError, match="WIR914"):
        py_wrapper.compile(bare_artifact(program), PyOptions(find_runtime=find_runtime))


def test_constants_without_data() -> None:
    program = parse_program("wir 0.5\ntarget cpu\nconst %w : f32[4]\nfunc @main() {\n  return %w\n}\n")
    with pytest.raises(ExecutionError, match="WIR929"):
        py_wrapper.compile(bare_artifact(program))
