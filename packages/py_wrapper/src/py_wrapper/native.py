"""Our types as torch's own objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch

from py_wrapper import higher_order
from py_wrapper._compat import is_overload, registered_symmetric
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.quoting import python_attribute
from wrapper_ir.schemas import ExternDef, require_effects
from wrapper_ir.types import Device, DType, Layout, MemoryFormat

__all__ = [
    "DTYPES",
    "LAYOUTS",
    "MEMORY_FORMATS",
    "overload_path",
    "overload_text",
    "resolve",
    "short_overload",
    "torch_device",
]

DTYPES: Mapping[DType, torch.dtype] = {d: getattr(torch, d.torch_name) for d in DType}  # torch names them so
MEMORY_FORMATS: Mapping[MemoryFormat, torch.memory_format] = {
    MemoryFormat.CONTIGUOUS: torch.contiguous_format,
    MemoryFormat.PRESERVE: torch.preserve_format,
    MemoryFormat.CHANNELS_LAST: torch.channels_last,
    MemoryFormat.CHANNELS_LAST_3D: torch.channels_last_3d,
}
LAYOUTS: Mapping[Layout, torch.layout] = {
    layout: getattr(torch, layout.value) for layout in Layout
}  # torch names them so


def torch_device(device: Device) -> torch.device:
    """The device; one without an index is torch's current one of that type."""
    return torch.device(str(device))


def overload_path(name: str) -> tuple[str, str, str]:
    """(namespace, operator, overload) of `aten::add.out`."""
    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    return namespace, operator, overload or "default"


def overload_text(name: str) -> str:
    """The Python expression of an operator."""
    namespace, operator, overload = overload_path(name)
    if namespace == higher_order.NAMESPACE:
        return higher_order.callee_text(operator, overload)
    return python_attribute(python_attribute(python_attribute("torch.ops", namespace), operator), overload)


def short_overload(name: str) -> str:
    """A readable name for an operator, as a Python variable."""
    namespace, operator, overload = overload_path(name)
    if namespace == higher_order.NAMESPACE:
        return higher_order.callee_name(operator, overload)
    return operator if overload == "default" else f"{operator}_{overload}"


@lru_cache(maxsize=4096)
def resolve(extern: ExternDef) -> Callable[..., Any]:  # Any: whatever operators take and return
    """The overload that `extern` names; raises NotSupportedError WIR914 where no library has registered it, and WIR919
    where it does more than is declared."""
    namespace, operator, overload = overload_path(extern.name)
    try:
        if namespace == higher_order.NAMESPACE:
            return higher_order.find(operator, overload)
        # operators are found by name
        found = getattr(getattr(getattr(torch.ops, namespace), operator), overload)
    except (AttributeError, RuntimeError, TypeError) as error:  # TypeError: lone surrogates in the name
        raise _unknown(extern.name, str(error)) from error
    if not is_overload(found):
        raise _unknown(extern.name, f"it is a {type(found).__name__}")
    overload_found: torch._ops.OpOverload = found
    require_effects(extern, str(overload_found._schema), registered_symmetric(overload_found))
    return overload_found


def _unknown(name: str, why: str) -> NotSupportedError:
    return NotSupportedError(
        "WIR914",
        f"torch has no operator {name}: {why}",
        hint="import the library that registers the operator before loading the program",
    )
