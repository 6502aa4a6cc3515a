"""What a graph calls, named so that the name says all that it does: operators, and functions of torch itself."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
from torch._higher_order_ops.effects import has_effects
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

# Roots of modules whose code belongs to the versions that every key holds.
_ROOTS = frozenset(
    {
        "torch",
        "_operator",
        "operator",
        "math",
        "builtins",
        "inductor_frontend",
        "wrapper_ir",
        "wrapper_ir_passes",
        "wrapper_ir_runtime",
        "wrapper_ir_torch",
    }
)
_NAMESPACES = frozenset(
    {
        "aten",
        "prim",
        "prims",
        "_c10d_functional",
        "inductor",
        "mkl",
        "mkldnn",
        "mkldnn_prepacked",
        "onednn",
        "quantized",
        "rngprims",
    }
)
# Operators of higher order whose arguments say all that they do. Others keep functions or kernels in tables of the
# process, of which the graph holds a number.
_HIGHER_ORDER = frozenset(
    {
        "associative_scan", "auto_functionalized", "auto_functionalized_v2", "autograd_function_apply", "cond",
        "control_deps", "flex_attention", "flex_attention_backward", "hints_wrapper", "invoke_subgraph", "map_impl",
        "out_dtype", "run_and_save_rng_state", "run_with_rng_state", "scan", "strict_mode", "tag_activation_checkpoint",
        "while_loop", "while_loop_stack_output", "with_effects", "wrap", "wrap_activation_checkpoint",
        "wrap_with_autocast", "wrap_with_set_grad_enabled",
    }
)  # fmt: skip
# Where functions written in C live that do not say so themselves.
_HOLDERS = ("torch", "torch._C._nn", "torch._C._linalg", "torch._C._fft", "torch._C._special", "torch._C")


class NoCanonicalForm(Exception):
    """Something that decides what is compiled cannot be written as text: the compilation is not cached."""


def is_operator(value: object) -> bool:
    """Whether `value` is an operator of torch's dispatcher, or of higher order."""
    return isinstance(value, (OpOverload, OpOverloadPacket, HigherOrderOperator))


def is_own_library(op: OpOverload | OpOverloadPacket) -> bool:
    """Whether an operator is one of torch's own."""
    namespace = op.namespace if isinstance(op, OpOverload) else op._qualified_op_name.partition("::")[0]
    return namespace in _NAMESPACES


def operator_text(op: object, *, own: bool) -> str:
    """The name of an operator; with its schema, tags and effects where it is not torch's own.

    `own`: only torch's own operators will do, because what is cached depends on what their Python code does.
    """
    if isinstance(op, HigherOrderOperator):
        if str(op) not in _HIGHER_ORDER or type(op).__module__.split(".")[0] != "torch":
            raise NoCanonicalForm(f"operator of higher order {op}")
        return f"higher_order {op.namespace}.{op}"
    assert isinstance(op, (OpOverload, OpOverloadPacket))
    if is_own_library(op):
        return f"op {op}"
    if own:
        raise NoCanonicalForm(f"custom operator {op}")
    if isinstance(op, OpOverloadPacket):
        raise NoCanonicalForm(f"operator {op} without its overload")
    tags = ",".join(sorted(str(tag) for tag in op.tags))
    return f"op {op} {op._schema} tags {tags} effects {has_effects(op)}"


@functools.cache
def name_of(target: Any) -> str:  # Any: a function, builtin, method descriptor or class
    """The importable name of one of torch's (or Python's) functions or classes; the name leads back to `target`."""
    module = getattr(target, "__module__", None)  # of callables in general
    short = getattr(target, "__name__", "")
    for name in (getattr(target, "__qualname__", short), short):
        if name and isinstance(module, str) and _resolve(module, name) is target:
            if module.split(".")[0] in _ROOTS:
                return f"{module}:{name}"
            raise NoCanonicalForm(f"function {module}.{name}")
    for holder in _HOLDERS:
        # A builtin bound to a type is a new object at every look; equality compares what it is bound to.
        if short and _resolve(holder, short) == target:
            return f"{holder}:{short}"
    owner = getattr(target, "__objclass__", None)  # of method descriptors
    if owner is torch.Tensor or owner is torch._C.TensorBase:
        return f"torch.Tensor:{short}"
    raise NoCanonicalForm(f"function {module}.{getattr(target, '__qualname__', short)}")


def _resolve(module: str, name: str) -> object:
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
