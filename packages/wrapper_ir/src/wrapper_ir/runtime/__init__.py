"""What emitted programs import: kernels and constants beside a module, calling conventions, run-time checks.

Needs no tensor library: the emitted module hands in what belongs to one.
"""

from wrapper_ir.runtime.binding import bind_inputs, bind_outputs, literal, signature_call
from wrapper_ir.runtime.debug import debug_value
from wrapper_ir.runtime.failures import (
    expect_keys,
    expect_static,
    explain,
    fail_assertion,
    fail_finite,
    fail_group,
    fail_layout,
)
from wrapper_ir.runtime.kernels import FindRuntime, load_kernels
from wrapper_ir.runtime.parts import ModuleContents, open_parts
from wrapper_ir.runtime.trees import PytreeContainers, class_of, custom_container, flatten, unflatten

__all__ = [
    "FindRuntime",
    "ModuleContents",
    "PytreeContainers",
    "bind_inputs",
    "bind_outputs",
    "class_of",
    "custom_container",
    "debug_value",
    "expect_keys",
    "expect_static",
    "explain",
    "fail_assertion",
    "fail_finite",
    "fail_group",
    "fail_layout",
    "flatten",
    "literal",
    "load_kernels",
    "open_parts",
    "signature_call",
    "unflatten",
]
