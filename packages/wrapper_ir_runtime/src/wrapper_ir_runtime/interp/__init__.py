"""The reference interpreter: the normative meaning of a program, on any tensor library that has a `Machine`.

It is the oracle for every emitter and the engine for stepping through programs.
"""

from wrapper_ir_runtime.interp.engine import Step
from wrapper_ir_runtime.interp.inputs import example_inputs
from wrapper_ir_runtime.interp.interpreter import Interpreter, call, run, steps
from wrapper_ir_runtime.interp.options import InterpOptions, MemoryReport
from wrapper_ir_runtime.interp.states import KeptState, keep_state

__all__ = [
    "InterpOptions",
    "Interpreter",
    "KeptState",
    "MemoryReport",
    "Step",
    "call",
    "example_inputs",
    "keep_state",
    "run",
    "steps",
]
