"""Prints a small program as a Python test: its text, its constants, and an assertion."""

from __future__ import annotations

import base64
import textwrap
from dataclasses import dataclass

from wrapper_ir.artifact import Artifact, TensorData
from wrapper_ir.text import print_program
from wrapper_ir_runtime.tensor_text import TensorView
from wrapper_ir_tools.debugger.compare import Mismatch

_HEADER = '''"""Shrunk by `wir minify`: {text}."""

from __future__ import annotations

import base64

from wrapper_ir import parse_program
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.plugins.registry import {imports}
from wrapper_ir.ir.types import DType

PROGRAM = r"""
{program}"""

CONSTANTS = {{
{constants}}}
"""By name: the element type, and the bytes, in base64 or as a number of zeros."""


def tensors(constants) -> dict[str, TensorData]:
    return {{
        name: TensorData(
            DType(dtype), memoryview(bytes(code) if isinstance(code, int) else base64.b64decode(code))
        )
        for name, (dtype, code) in constants.items()
    }}


def artifact() -> Artifact:
    return bare_artifact(parse_program(PROGRAM), tensors(CONSTANTS))

'''
_FINITE = """
def test_every_op_is_finite() -> None:
    from wrapper_ir_tools.debugger.hunt import hunt
    from wrapper_ir_tools.debugger.subject import Subject

    assert hunt(Subject(artifact(), machine("{machine}"))) is None
"""
_ENGINE = """
def test_the_engine_agrees() -> None:
    from wrapper_ir_tools.debugger.compare import compare_runs
    from wrapper_ir_tools.debugger.engines import engine_samples
    from wrapper_ir_tools.debugger.samples import samples
    from wrapper_ir_tools.debugger.subject import InputChoice, Subject

    tensors = machine("{machine}")
    second = engine_samples(artifact(), emitter("{engine}"), tensors, InputChoice())
    assert compare_runs(samples(Subject(artifact(), tensors)), second).agree
"""
_PROGRAM = '''
SECOND = r"""
{program}"""

SECOND_CONSTANTS = {{
{constants}}}


def test_both_programs_agree() -> None:
    from wrapper_ir_tools.debugger.compare import compare_runs
    from wrapper_ir_tools.debugger.samples import samples
    from wrapper_ir_tools.debugger.subject import Subject

    first = Subject(artifact(), machine("{machine}"))
    other = bare_artifact(parse_program(SECOND), tensors(SECOND_CONSTANTS))
    second = Subject(other, first.machine, draws=first.draws)
    assert compare_runs(samples(first), samples(second)).agree
'''
_EXPECTED = """
EXPECTED = {{
{expected}}}
\"\"\"What the model computes.\"\"\"


def test_the_value_is_the_models() -> None:
    from dataclasses import replace

    from wrapper_ir_tools.debugger.contents import Content
    from wrapper_ir_tools.debugger.samples import samples
    from wrapper_ir_tools.debugger.subject import Subject
    from wrapper_ir_tools.debugger.tolerances import compare_contents

    found = next(s for s in samples(Subject(artifact(), machine("{machine}"))) if s.key == {key!r})
    assert compare_contents(found.content, Content({content})) is None
"""
_COMMAND = """
def test_the_command_succeeds(tmp_path) -> None:
    import subprocess

    from wrapper_ir import save

    save(artifact(), tmp_path / "small.wir")
    command = {command!r}.replace("{{}}", str(tmp_path / "small.wir"))
    assert subprocess.run(command, shell=True).returncode == 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleOptions:
    """Selects the assertion of a test: an `engine`, a `second` program, the `model`'s value, or a `command`.

    Without any of these, every op must compute finite values. `machine` runs the program.
    """

    machine: str
    engine: str = ""
    command: str = ""
    second: Artifact | None = None
    model: Mismatch | None = None


def module_text(artifact: Artifact, text: str, options: ModuleOptions) -> str:
    """Returns the source of a module with one test that fails while the fault exists. `text` describes the
    fault.
    """
    imports = "emitter, machine" if options.engine else "machine"
    head = _HEADER.format(
        text=text, imports=imports, program=print_program(artifact.program), constants=_constants(artifact)
    )
    return head + _test(options)


def _test(options: ModuleOptions) -> str:
    machine = options.machine
    if options.command:
        command = options.command
        return _COMMAND.format(command=command if "{}" in command else f"{command} {{}}")
    if options.second is not None:
        program = print_program(options.second.program)
        return _PROGRAM.format(program=program, constants=_constants(options.second), machine=machine)
    if options.model is not None:
        key, expectation = options.model.first.key, options.model.second.content.data
        if not isinstance(expectation, TensorView):
            return _EXPECTED.format(expected="", content=repr(expectation), key=key, machine=machine)
        expected = _constant("value", TensorData(expectation.dtype, memoryview(expectation.data)))
        content = 'replace(found.content.data, data=tensors(EXPECTED)["value"].buffer)'
        return _EXPECTED.format(expected=expected, content=content, key=key, machine=machine)
    return (
        _ENGINE.format(machine=machine, engine=options.engine)
        if options.engine
        else _FINITE.format(machine=machine)
    )


def _constants(artifact: Artifact) -> str:
    return "".join(_constant(name, data) for name, data in artifact.constants.items())


def _constant(name: str, data: TensorData) -> str:
    raw = bytes(data.buffer.cast("B")) if data.nbytes else b""
    if not any(raw):
        return f"    {name!r}: ({data.dtype.value!r}, {len(raw)}),\n"
    coded = textwrap.wrap(base64.b64encode(raw).decode(), 100)
    lines = "".join(f"        {line!r}\n" for line in coded)
    return f"    {name!r}: ({data.dtype.value!r}, (\n{lines}    )),\n"
