"""Our types as torch's own objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch

from fx_converter._compat import is_overload, registered_symmetric
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.operators import inner_operator
from wrapper_ir.schemas import ExternDef, require_effects
from wrapper_ir.types import Device, DType

__all__ = ["DTYPES", "HIGHER_ORDER", "Callee", "resolve", "torch_device"]

HIGHER_ORDER = "higher_order"
DTYPES: Mapping[DType, torch.dtype] = {d: getattr(torch, d.torch_name) for d in DType}  # torch names them so

# Where the operator that is run stands among the arguments of a higher-order one.
_RUNNERS = {"run_and_save_rng_state": 0, "run_with_rng_state": 1}

Callee = tuple[Callable[..., Any], int | None, Any]
"""What is called, and for a higher-order operator that runs another one: at which argument, and which. Any: whatever
operators take and return."""


def torch_device(device: Device) -> torch.device:
    """The device; one without an index is torch's current one of that type."""
    return torch.device(str(device))


@lru_cache(maxsize=4096)
def resolve(extern: ExternDef) -> Callee:
    """What `extern` names; raises NotSupportedError WIR914 where no library has registered it, and WIR919 where it does
    more than is declared."""
    namespace, _, rest = extern.name.partition("::")
    operator, _, overload = rest.partition(".")
    try:
        packet = getattr(getattr(torch.ops, namespace), operator)  # operators are found by name
        if namespace != HIGHER_ORDER:
            found = getattr(packet, overload or "default")
            if not is_overload(found):
                raise AttributeError(f"it is a {type(found).__name__}")
            require_effects(extern, str(found._schema), registered_symmetric(found))
            return found, None, None
        if not isinstance(packet, torch._ops.HigherOrderOperator):
            raise AttributeError(f"it is a {type(packet).__name__}")
        if operator in _RUNNERS:
            return packet, _RUNNERS[operator], _inner(overload)
        return packet, None, None
    except (AttributeError, RuntimeError, TypeError) as error:  # TypeError: lone surrogates in the name
        raise NotSupportedError(
            "WIR914",
            f"torch has no operator {extern.name}: {error}",
            hint="import the library that registers the operator before loading the program",
        ) from error


def _inner(overload: str) -> Any:
    """The operator that `aten__rand__default` names."""
    names = inner_operator(overload)
    if names is None:
        raise AttributeError(f"{overload!r} names no operator to run")
    found: Any = torch.ops
    for name in names:
        found = getattr(found, name)
    return found
