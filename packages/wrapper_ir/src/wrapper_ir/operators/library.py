"""Static facts about torch's operators: rebinding of tensors to other memory, and proved results.

The core does not import torch; a test compares the names with the installed torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.operators.policy import called_names

_REBINDING = """
    aten::set_ aten::set aten::set_data aten::as_strided_ aten::_reshape_alias aten::_reshape_alias_copy
    inductor::_reinterpret_tensor inductor::_alloc_from_pool inductor::resize_storage_bytes_
"""
REBINDING = frozenset(_REBINDING.split())
"""Operators that change an argument's memory but not its type, or do not check bounds.

The ops `view`, `reuse`, `resize_storage` and `set_storage` replace them; their bounds are proved or checked.
Not listed are `aten::resize_` and its variants, which never shrink a storage, and operators that permute, add
or remove dimensions in place (`aten::t_`), after which the tensor spans the same bytes. `aten::as_strided`
and its copies check bounds.
"""

LIBRARIES = frozenset(
    ("aten", "prims", "inductor", "inductor_prims", "mkl", "mkldnn", "quantized", "_c10d_functional")
)
"""Namespaces of torch's operators. Results are within their storages, on the arguments' device."""
_NAMED = LIBRARIES | {"c10d", "fsdp", "higher_order", "profiler", "rngprims", "symm_mem", "wrapper_ir"}
"""Namespaces whose operators are known by name: none rebinds an argument, except `REBINDING`."""

_KEEPING = """
    aten::_adaptive_avg_pool2d aten::addbmm aten::addmm aten::addmv aten::avg_pool2d aten::avg_pool3d
    aten::baddbmm aten::bmm aten::convolution aten::convolution_backward aten::gather aten::grid_sampler_2d
    aten::index_select aten::max_pool2d_with_indices aten::mm aten::mv aten::native_group_norm
    aten::native_layer_norm aten::_scaled_dot_product_cudnn_attention
    aten::_scaled_dot_product_efficient_attention aten::_scaled_dot_product_flash_attention
    aten::_scaled_dot_product_flash_attention_for_cpu mkl::_mkl_linear mkldnn::_convolution_pointwise
    mkldnn::_linear_pointwise
"""
_KEEPS_DTYPE = frozenset(_KEEPING.split())
"""Operators without overload whose first result has their first argument's floating-point dtype."""
_UNUSUAL = ("sparse", "mkldnn", "nested", "jagged", "quantize", "neg_view")
"""Parts of names of operators whose results may not be plain strided memory."""


def rebinds(name: str) -> bool:
    """Returns whether the operator of this name is in `REBINDING`."""
    return name.partition(".")[0] in REBINDING


def may_rebind(name: str) -> bool:
    """Returns whether this operator, or the one that it runs, is unknown and may rebind its arguments."""
    return any(operator.partition("::")[0] not in _NAMED for operator in called_names(name))


@dataclass(frozen=True, slots=True)
class OpenFacts:
    """Facts of an operator's result to check at run time.

    `defined`: the result is a tensor. `memory`: it is in strided memory within its storage.
    """

    defined: bool = True
    dtype: bool = True
    device: bool = True
    memory: bool = True

    def __bool__(self) -> bool:
        return self.defined or self.dtype or self.device or self.memory


def open_facts(
    info: ir.ExternInfo, op: ir.OperatorCall, type: ir.TensorType, path: tuple[int | str, ...]
) -> OpenFacts:
    """Returns the facts that are not proved of the result at `path`, whose type is `type`."""
    name = info.extern.name
    namespace, operator = name.partition("::")[::2]
    if namespace not in LIBRARIES or rebinds(name) or ir.ExternTag.PYTHON_ONLY in info.extern.tags:
        return OpenFacts()
    values = [*op.args, *(arg for _, arg in op.kwargs)]
    tensors = list(_tensors(values))
    is_single = [r.type for r in info.schema.returns] == ["Tensor"]
    return OpenFacts(
        defined=not is_single,
        dtype=not _keeps_dtype(name, namespace, tensors, type, path),
        device=not _same_device(values, tensors, type, is_single),
        memory=any(part in operator for part in _UNUSUAL) or namespace == "quantized",
    )


def apart_operands(
    info: ir.ExternInfo, op: ir.OperatorCall, path: tuple[int | str, ...]
) -> tuple[ir.Value[ir.TensorType], ...]:
    """Tensor arguments whose storage the result at `path` must not share: its schema declares it as new.

    Operators of torch and of the runtime return what they declare; of others, only the call can tell.
    """
    returns = info.schema.returns
    number = path[0] if len(returns) > 1 and path and isinstance(path[0], int) else 0
    if not may_rebind(info.extern.name) or number >= len(returns) or returns[number].alias:
        return ()
    return tuple(dict.fromkeys(_tensors([*op.args, *(arg for _, arg in op.kwargs)])))


def _keeps_dtype(
    name: str,
    namespace: str,
    tensors: list[ir.Value[ir.TensorType]],
    type: ir.TensorType,
    path: tuple[int | str, ...],
) -> bool:
    if path not in ((), (0,)) or not tensors or tensors[0].type.dtype is not type.dtype:
        return False
    return namespace == "_c10d_functional" or (name in _KEEPS_DTYPE and type.dtype.is_floating)


def _same_device(
    values: list[ir.Arg], tensors: list[ir.Value[ir.TensorType]], type: ir.TensorType, is_single: bool
) -> bool:
    """Returns whether a result is on the device of the arguments.

    Of several results, some may be on the CPU although the meta function says otherwise: 0-d seeds and
    offsets of attention operators.
    """
    devices = [value for value in values if isinstance(value, ir.Device)]
    if devices:
        return devices == [type.device]
    if not tensors or any(t.type.device != type.device for t in tensors):
        return False
    return type.device == ir.CPU or is_single or not type.sizes


def _tensors(values: list[ir.Arg]) -> Iterator[ir.Value[ir.TensorType]]:
    for value in values:
        if ir.is_tensor(value):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors(list(value))
