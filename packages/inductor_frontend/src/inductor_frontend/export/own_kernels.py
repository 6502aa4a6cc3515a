"""Traces a model's Triton kernels, called as `kernel[grid](...)`, as torch's operator for such launches.

torch.export traces a launch only if `torch.library.wrap_triton` was called on its kernel, and ignores some
features. Rules that compute constants (`@triton.heuristics`) are therefore applied here. Tensor descriptors
are split into their tensor and the sizes of their blocks, as Dynamo does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch._higher_order_ops import triton_kernel_wrap
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils import _pytree as pytree
from torch.utils._triton import has_triton_package

from inductor_frontend.errors import ConversionError
from inductor_frontend.torch_patches._compat import launched_by_name
from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import (
    DESCRIPTOR_HARDWARE,
    TRITON_LAUNCHES,
    TRITON_NODES,
    WRITTEN_PARAMETERS,
)

# Any in this file: the user's kernels, grids and arguments; triton publishes no types.


@contextmanager
def traced_kernels() -> Iterator[None]:
    """Traces launches of this thread as nodes of the graph.

    Raises ConversionError FE303 for arguments without a typed form.
    """
    if not has_triton_package():
        yield
        return
    launches = TRITON_LAUNCHES.by(__getitem__=_tracing(TRITON_LAUNCHES.own()))
    with replaced(launches, TRITON_NODES.by(call_HOP=_node)):
        yield


@contextmanager
def known_descriptors() -> Iterator[None]:
    """Makes torch expand tensor descriptors to parameters on all devices when it analyzes the writes of a
    kernel.

    Otherwise it does so only on devices with hardware support, and reports wrong parameters as written
    elsewhere.
    """
    look = WRITTEN_PARAMETERS.own()
    present = DESCRIPTOR_HARDWARE.by(has_triton_tensor_descriptor_host_tma=lambda: True)

    def looked(*args: object) -> object:
        with replaced(present):
            return look(*args)

    with replaced(WRITTEN_PARAMETERS.by(generate_ttir=looked)):
        yield


def _tracing(plain: Callable[[Any, object], Any]) -> Callable[[object, object], object]:
    def getitem(kernel: Any, grid: object) -> Any:
        if get_proxy_mode() is None:
            return plain(kernel, grid)
        return partial(_launch, kernel, grid)

    return getitem


def _launch(kernel: Any, grid: object, *args: object, **kwargs: object) -> None:
    """Traces one launch, with the results of its heuristics as arguments."""
    from triton.runtime.autotuner import Heuristics

    while isinstance(kernel, Heuristics):
        for name, rule in kernel.values.items():
            kwargs[name] = rule({**dict(zip(kernel.arg_names, args)), **kwargs})
        kernel = kernel.fn
    torch.library.wrap_triton(kernel)[grid](*args, **kwargs)


def _node(tracer: Any, variable: Any, grids: Any, arguments: Mapping[str, Any], *rest: object) -> object:
    """Creates the node of a launch; descriptors are replaced by their tensors."""
    descriptors = {name: x for name, x in arguments.items() if _is_descriptor(x)}
    plain = {**arguments, **{name: _whole(name, x) for name, x in descriptors.items()}}
    for name, value in plain.items():
        if not isinstance(value, torch.Tensor) and _holds_tensors(value):
            raise ConversionError(
                "FE303",
                f"argument {name} of kernel {_name(variable.kernel)} "
                f"is a {type(value).__name__} that contains tensors",
                hint="pass the tensors as separate arguments",
            )
    graphable, constants = tracer.store_non_graphable_args(plain)
    return triton_kernel_wrap.triton_kernel_wrapper_mutation(
        kernel_idx=variable.kernel_idx,
        constant_args_idx=constants,
        grid=grids,
        tma_descriptor_metadata={
            name: triton_kernel_wrap.create_tma_stable_metadata(list(x.block_shape))
            for name, x in descriptors.items()
        },
        kwargs=graphable,
        **launched_by_name(rest),
    )


def _name(kernel: object) -> str:
    while hasattr(kernel, "fn") and not hasattr(kernel, "__name__"):
        kernel = kernel.fn
    return str(getattr(kernel, "__name__", kernel))


def _is_descriptor(value: object) -> bool:
    return type(value).__name__ == "TensorDescriptor" and isinstance(
        getattr(value, "base", None), torch.Tensor
    )


def _whole(name: str, descriptor: Any) -> torch.Tensor:
    """Returns the tensor with the sizes and strides of a descriptor: a view if it describes a part of its
    base.

    Raises ConversionError FE303 for a descriptor with padding other than zeros.
    """
    base: torch.Tensor = descriptor.base
    if getattr(descriptor, "padding", "zero") != "zero":
        raise ConversionError(
            "FE303",
            f"the tensor descriptor {name} pads with {descriptor.padding}",
            hint="create it with the default padding, and mask elements outside in the kernel",
        )
    sizes, strides = list(descriptor.shape), list(descriptor.strides)
    if sizes == list(base.shape) and strides == list(base.stride()):
        return base
    return base.as_strided(sizes, strides)


def _holds_tensors(value: object) -> bool:
    leaves = pytree.tree_leaves(value)
    return any(isinstance(x, torch.Tensor) or _is_descriptor(x) for x in leaves)
