"""Text of tensors in keys: their metadata at compile time, and the bytes of constants."""

from __future__ import annotations

import hashlib

import torch
from torch._subclasses import FakeTensor

from inductor_frontend.cache.operators import NoCanonicalForm
from inductor_frontend.constants import on_host, tensor_data

_CLASSES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, FakeTensor)


def _sizes(values: tuple[int | torch.SymInt, ...]) -> str:
    return ",".join(str(v.node.expr) if isinstance(v, torch.SymInt) else str(v) for v in values)


def fake_text(tensor: object) -> str:
    """Returns the metadata of a fake tensor as text; raises NoCanonicalForm for tensor subclasses."""
    assert isinstance(tensor, torch.Tensor)
    if type(tensor) not in _CLASSES:
        raise NoCanonicalForm(f"tensor subclass {type(tensor).__qualname__}")
    if tensor.layout is not torch.strided:
        return f"{tensor.dtype}[{_sizes(tuple(tensor.shape))}]{tensor.device}{tensor.layout}"
    flags = (
        tensor.requires_grad,
        tensor.is_conj(),
        tensor.is_neg(),
        tensor.is_quantized,
        tensor.is_inference(),
    )
    marks = "".join("1" if flag else "0" for flag in flags)
    shape, stride = _sizes(tuple(tensor.shape)), _sizes(tensor.stride())
    offset = _sizes((tensor.storage_offset(),))
    return f"{tensor.dtype}[{shape}|{stride}|{offset}]{tensor.device}:{marks}"


def constant_text(tensor: object) -> str:
    """Returns the metadata and a digest of the bytes of a constant of the graph."""
    assert isinstance(tensor, torch.Tensor)
    if isinstance(tensor, FakeTensor):
        raise NoCanonicalForm("a constant without bytes")
    digest = hashlib.sha256(tensor_data("constant", on_host(tensor)).buffer).hexdigest()
    return f"constant {fake_text(tensor)} {digest}"


def input_text(value: object) -> str:
    """Returns the autograd and aliasing state of a real input, which its fake tensor does not have."""
    if not isinstance(value, torch.Tensor):
        return type(value).__qualname__
    if type(value) not in _CLASSES:
        raise NoCanonicalForm(f"input of tensor subclass {type(value).__qualname__}")
    base = value._base
    view = "" if base is None else f" view of {fake_text(base)}"
    marks = (value.is_leaf, value.requires_grad, value.is_inference(), value.retains_grad)
    return f"{type(value).__qualname__} {marks}{view}"
