"""Declares library operators: the schema and the tags that define a call's effects."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch._inductor import ir
from torch._ops import OpOverload

from inductor_frontend.errors import ConversionError
from inductor_frontend.torch_patches._compat import is_effectful
from wrapper_ir.errors import SchemaError
from wrapper_ir.expr import SymKind
from wrapper_ir.ir import ExternDef, ExternTag, ScalarType, parse_schema
from wrapper_ir.operators import symmetric as symmetric_operators
from wrapper_ir.operators.symmetric import needed_symmetric
from wrapper_ir_torch import registered_symmetric
from wrapper_ir_torch.python_operators import is_python_only

# Operators that return either a view or a copy, depending on strides or dtypes known only at run time.
_MAYBE_VIEW = frozenset(
    {
        "aten::reshape", "aten::reshape_as", "aten::contiguous", "aten::flatten", "aten::ravel", "aten::to",
        "aten::resolve_conj", "aten::resolve_neg", "aten::type_as",
    }
)  # fmt: skip

_COLLECTIVES = frozenset(
    {"_c10d_functional", "c10d_functional", "c10d", "_dtensor", symmetric_operators.NAMESPACE}
)

# Both return their argument, which torch's own schema omits. `irecv` also writes it. A wait is not a write:
# until it returns, no other operator may read the tensor.
_TRUE_SCHEMAS: Mapping[str, str] = MappingProxyType(
    {
        "_c10d_functional::wait_tensor": "(Tensor(a) tensor) -> Tensor(a)",
        "_c10d_functional::irecv": "(*, Tensor(a!) tensor, int src, int tag, str group_name) -> Tensor(a!)",
    }
)


_MAY_BE_UNDEFINED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "aten::_scaled_dot_product_cudnn_attention_backward": ("attn_bias", "cum_seq_q", "cum_seq_k"),
        "aten::_scaled_dot_product_efficient_attention_backward": ("attn_bias",),
        "aten::_scaled_dot_product_flash_attention_backward": ("cum_seq_q", "cum_seq_k"),
        "aten::_scaled_dot_product_fused_attention_overrideable_backward": (
            "attn_bias",
            "cum_seq_q",
            "cum_seq_k",
        ),
    }
)
"""Arguments that are tensors by schema, but that attention on a GPU passes as None: its forward returned
none."""


def overload_of(node: ir.ExternKernel) -> OpOverload:
    """Returns the operator that an extern node calls; raises ConversionError FE301."""
    overload = node.op_overload
    if isinstance(overload, OpOverload):
        return overload
    name = getattr(node, "python_kernel_name", None)  # not all node classes set it
    raise ConversionError(
        "FE301",
        f"{name or type(node).__name__} is not an operator with a schema",
        hint="higher-order operators and Python functions cannot be called from a captured program",
    )


def out_overload(node: ir.ExternKernel) -> tuple[OpOverload, str]:
    """Returns the out variant that a node calls, and the name of its out argument; raises ConversionError
    FE301."""
    overload = overload_of(node)
    outs = [a.name for a in overload._schema.arguments if a.is_out]
    if not outs:
        packet = overload.overloadpacket
        candidate = getattr(packet, "out", None)  # not every operator has a variant of this name
        if isinstance(candidate, OpOverload):
            overload = candidate
            outs = [a.name for a in overload._schema.arguments if a.is_out]
    if not outs:  # since 2.13, torch registers variants whose out argument is positional
        outs = [
            a.name for a in overload._schema.arguments if a.alias_info is not None and a.alias_info.is_write
        ]
    if len(outs) != 1:
        raise ConversionError("FE301", f"{overload} has {len(outs)} out arguments")
    return overload, outs[0]


_NUMBERS = {"int": SymKind.INT, "float": SymKind.FLOAT, "bool": SymKind.BOOL}


def scalar_result(overload: object) -> ScalarType | None:
    """Returns the type of a single result that is a number; None for operators with any other results."""
    if not isinstance(overload, OpOverload):
        return None
    returns = [str(r.type) for r in overload._schema.returns]  # "int" also for SymInt
    return ScalarType(_NUMBERS[returns[0]]) if len(returns) == 1 and returns[0] in _NUMBERS else None


def extern_def(overload: OpOverload) -> ExternDef:
    """Returns the declaration of an operator."""
    schema = overload._schema
    tags: list[ExternTag] = []
    if torch.Tag.nondeterministic_seeded in overload.tags:
        tags.append(ExternTag.RANDOM)
    if schema.name in _MAYBE_VIEW:
        tags.append(ExternTag.MAY_ALIAS)
    if is_effectful(overload):
        tags.append(ExternTag.EFFECTFUL)
    if overload.namespace in _COLLECTIVES:
        tags.append(ExternTag.COLLECTIVE)
    if is_python_only(".".join(filter(None, (schema.name, schema.overload_name)))):
        tags.append(ExternTag.PYTHON_ONLY)
    if torch.Tag.cudagraph_unsafe in overload.tags:
        tags.append(ExternTag.CUDAGRAPH_UNSAFE)
    true = _TRUE_SCHEMAS.get(schema.name)
    text = str(schema) if true is None else schema.name + true
    for name in _MAY_BE_UNDEFINED.get(schema.name, ()):
        text = text.replace(f"Tensor {name},", f"Tensor? {name},")
    return ExternDef(schema=text, tags=tuple(tags), symmetric=_symmetric(overload, text))


def _symmetric(overload: OpOverload, schema: str) -> tuple[str, ...]:
    """Returns the arguments that must be symmetric memory, for torch's own operators and for those that a
    library registered."""
    try:
        parsed = parse_schema(schema)
    except SchemaError:
        return ()  # refused with the program
    names = {*needed_symmetric(parsed), *registered_symmetric(overload)}
    return tuple(a.name for a in parsed.args if a.name in names and a.is_tensor) if names else ()
