"""A small program as a Python test: its text, its constants, and what has to hold of it."""

from __future__ import annotations

import base64
import textwrap

from wrapper_ir.artifact import Artifact, TensorData
from wrapper_ir.text import print_program

__all__ = ["module_text"]

_HEADER = '''"""Shrunk by `wir minify`: {text}."""

from __future__ import annotations

import base64

from wrapper_ir import parse_program
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.registry import emitter, machine
from wrapper_ir.types import DType

PROGRAM = r"""
{program}"""

CONSTANTS = {{
{constants}}}
"""By name: the element type, and the bytes, in base64 or as a number of zeros."""


def artifact() -> Artifact:
    data = {{
        name: TensorData(DType(dtype), memoryview(bytes(held) if isinstance(held, int) else base64.b64decode(held)))
        for name, (dtype, held) in CONSTANTS.items()
    }}
    return bare_artifact(parse_program(PROGRAM), data)

'''
_FINITE = """
def test_every_op_is_finite() -> None:
    from wrapper_ir.debugger.hunt import hunt
    from wrapper_ir.debugger.subject import Subject

    assert hunt(Subject(artifact(), machine("{machine}"))) is None
"""
_ENGINE = """
def test_the_engine_agrees() -> None:
    from wrapper_ir.debugger.compare import compare_runs
    from wrapper_ir.debugger.engines import engine_samples
    from wrapper_ir.debugger.samples import samples
    from wrapper_ir.debugger.subject import InputChoice, Subject

    tensors = machine("{machine}")
    second = engine_samples(artifact(), emitter("{engine}"), tensors, InputChoice())
    assert compare_runs(samples(Subject(artifact(), tensors)), second).agree
"""
_COMMAND = """
def test_the_command_succeeds(tmp_path) -> None:
    import subprocess

    from wrapper_ir import save

    save(artifact(), tmp_path / "small.wir")
    command = {command!r}.replace("{{}}", str(tmp_path / "small.wir"))
    assert subprocess.run(command, shell=True).returncode == 0
"""


def module_text(artifact: Artifact, text: str, *, machine: str, engine: str = "", command: str = "") -> str:
    """The source of a module with one test, which fails as long as the fault is there. `text` says what the fault is."""
    program = print_program(artifact.program)
    constants = "".join(_constant(name, data) for name, data in artifact.constants.items())
    head = _HEADER.format(text=text, program=program, constants=constants)
    if command:
        line = command if "{}" in command else f"{command} {{}}"
        return head + _COMMAND.format(command=line)
    body = _ENGINE.format(machine=machine, engine=engine) if engine else _FINITE.format(machine=machine)
    head = head if engine else head.replace("import emitter, machine", "import machine")
    return head + body


def _constant(name: str, data: TensorData) -> str:
    raw = bytes(data.buffer.cast("B")) if data.nbytes else b""
    if not any(raw):
        return f"    {name!r}: ({data.dtype.value!r}, {len(raw)}),\n"
    coded = textwrap.wrap(base64.b64encode(raw).decode(), 100)
    lines = "".join(f"        {line!r}\n" for line in coded)
    return f"    {name!r}: ({data.dtype.value!r}, (\n{lines}    )),\n"
