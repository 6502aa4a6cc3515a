"""Names of the callees of a graph, operators and functions of torch: equal names mean equal behaviour."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
from torch._higher_order_ops.effects import has_effects
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

# Root packages whose versions are part of every key.
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
# Higher-order operators that their arguments define completely. Others refer by number to functions or
# kernels in tables of the process.
_HIGHER_ORDER = frozenset(
    {
        "associative_scan", "auto_functionalized", "auto_functionalized_v2", "autograd_function_apply",
        "cond", "control_deps", "flex_attention", "flex_attention_backward", "hints_wrapper",
        "invoke_subgraph", "map_impl", "out_dtype", "run_and_save_rng_state", "run_with_rng_state", "scan",
        "strict_mode", "tag_activation_checkpoint", "while_loop", "while_loop_stack_output", "with_effects",
        "wrap", "wrap_activation_checkpoint", "wrap_with_autocast", "wrap_with_set_grad_enabled",
    }
)  # fmt: skip
# Modules to search for C functions that do not state their module.
_HOLDERS = ("torch", "torch._C._nn", "torch._C._linalg", "torch._C._fft", "torch._C._special", "torch._C")


class NoCanonicalForm(Exception):
    """A dependency of a compilation has no canonical text, so the compilation is not cached."""


def is_operator(value: object) -> bool:
    """Returns whether `value` is an operator of torch's dispatcher or a higher-order operator."""
    return isinstance(value, (OpOverload, OpOverloadPacket, HigherOrderOperator))


def is_own_library(op: OpOverload | OpOverloadPacket) -> bool:
    """Returns whether an operator is part of torch."""
    namespace = op.namespace if isinstance(op, OpOverload) else op._qualified_op_name.partition("::")[0]
    return namespace in _NAMESPACES


def operator_text(op: object, *, own: bool) -> str:
    """Returns the name of an operator; if it is not torch's, with its schema, tags and effects.

    If `own`, raises NoCanonicalForm for operators that are not torch's: the cached result depends on their
    Python code.
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
    """Returns the importable name of a function or class of torch or Python, which resolves to `target`."""
    module = getattr(target, "__module__", None)  # of callables in general
    short = getattr(target, "__name__", "")
    for name in (getattr(target, "__qualname__", short), short):
        if name and isinstance(module, str) and _resolve(module, name) is target:
            if module.split(".")[0] in _ROOTS:
                return f"{module}:{name}"
            raise NoCanonicalForm(f"function {module}.{name}")
    for holder in _HOLDERS:
        # Each access to a builtin that is bound to a type creates an object; equality compares the bound
        # type.
        if short and _resolve(holder, short) == target:
            return f"{holder}:{short}"
    owner = getattr(target, "__objclass__", None)  # of method descriptors
    if owner is torch.Tensor or owner is torch._C.TensorBase:
        return f"torch.Tensor:{short}"
    raise NoCanonicalForm(f"function {module}.{getattr(target, '__qualname__', short)}")


def _resolve(module: str, name: str) -> object:
    value: object = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    return value
