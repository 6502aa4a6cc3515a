"""What emitted programs import: kernels and constants beside a module, calling conventions, run-time checks.

Needs no tensor library: the emitted module hands in what belongs to one.
"""

from wrapper_ir.runtime.binding import bind_inputs, bind_outputs, literal, signature_call
from wrapper_ir.runtime.kernels import FindRuntime, load_kernels
from wrapper_ir.runtime.trees import PytreeContainers, flatten, unflatten

__all__ = [
    "FindRuntime",
    "PytreeContainers",
    "bind_inputs",
    "bind_outputs",
    "flatten",
    "literal",
    "load_kernels",
    "signature_call",
    "unflatten",
]
