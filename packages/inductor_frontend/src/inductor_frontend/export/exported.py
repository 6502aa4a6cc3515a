"""Calls torch.export on a model, and collects facts about its signature that the result lacks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram

from inductor_frontend.devices.moved import moved_program
from inductor_frontend.devices.places import on_device
from inductor_frontend.errors import CaptureError
from inductor_frontend.export.call_signature import parameters_of
from inductor_frontend.export.dim_names import dim_names
from inductor_frontend.export.own_kernels import traced_kernels
from inductor_frontend.export.repeated_arguments import repeated_leaves, separate
from inductor_frontend.export.side_effects import Watch
from inductor_frontend.export.streams import traced_streams
from inductor_frontend.export.subclasses import is_wrapper
from inductor_frontend.export.torch_export import export, export_by_dynamo
from inductor_frontend.export.trees import pack, unpack
from inductor_frontend.lazy_bits import resolved_leaves
from wrapper_ir import ir

# Any in this file: the user's models, functions and their arguments.
EXPORT_HINT = "make the model exportable, or compile it with torch.compile(backend='wrapper_ir')"


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported program with facts about its signature.

    `parameters`: the parameters of the model's function; empty if unknown. `repeated`: the input leaves for
    which one tensor was passed several times. `real`: the real tensors of the program's fake tensors, by
    name. `symbols`: the user's names of symbols.
    """

    program: ExportedProgram
    parameters: tuple[ir.Parameter, ...] = ()
    repeated: frozenset[int] = frozenset()
    real: Mapping[str, torch.Tensor] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)


class _FunctionModule(torch.nn.Module):
    """A function as a module. The instance attribute `forward` keeps the parameter names of the function."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.forward = function if _has_signature(function) else _plain(function)


def _has_signature(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function)
    except ValueError:  # a builtin
        return False
    return True


def _plain(function: Callable[..., object]) -> Callable[..., object]:
    def forward(*args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    return forward


def export_model(
    model: torch.nn.Module | Callable[..., object] | ExportedProgram,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    dynamic_shapes: object,
    device: torch.device | None = None,
    *,
    empty_sizes: bool = False,
) -> Exported:
    """Exports a model unless it is an exported program; raises CaptureError FE101 with torch's reason.

    With a `device`, the model is traced as if it and its arguments were on that device. `empty_sizes` is the
    option of `CaptureOptions`.
    """
    if isinstance(model, ExportedProgram):
        return Exported(model if device is None else moved_program(model, device))
    module = model if isinstance(model, torch.nn.Module) else _FunctionModule(model)
    args, kwargs = resolved_leaves((args, dict(kwargs)))
    parameters = parameters_of(module.forward, args, kwargs, static=dynamic_shapes is None)
    repeated = repeated_leaves(pack((args, dict(kwargs))))
    separated = pack(separate((args, dict(kwargs))))
    with on_device(module, separated, device) as ((args, kwargs), real):
        program = _exported(module, args, dict(kwargs), dynamic_shapes, device, empty_sizes)
        names = dim_names(module, args, kwargs, dynamic_shapes, program)
    return Exported(program, parameters, repeated, real, names)


def _exported(
    module: torch.nn.Module,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    dynamic_shapes: object,
    device: torch.device | None,
    empty_sizes: bool,
) -> ExportedProgram:
    """Exports by tracing the running model; if that fails, by Dynamo."""
    try:
        with _around(module) as storages, traced_kernels(), traced_streams(device):
            program = export(module, args, kwargs, dynamic_shapes, empty_sizes)
    except CaptureError as refusal:
        if refusal.code != "FE101":
            raise
        fallback = export_by_dynamo(module, args, kwargs, dynamic_shapes, empty_sizes)
        if fallback is None:
            raise
        return fallback
    _check_storages(storages, program)
    return program


@contextmanager
def _around(module: torch.nn.Module) -> Iterator[list[tuple[torch.Tensor, int | torch.SymInt]]]:
    """Installs hooks on the module during an export.

    Before the model runs, unregistered data classes are unpacked from their containers; its results are
    packed. After it, the metadata of the arguments is restored, because torch reads input sizes from them
    after the trace. Mutations of Python objects are refused. Yields the arguments with the sizes of their
    storages in bytes.
    """
    places: list[tuple[torch.Tensor, _Geometry]] = []
    storages: list[tuple[torch.Tensor, int | torch.SymInt]] = []
    watches: list[Watch] = []

    def before(_: object, args: object, kwargs: object) -> Any:
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        places[:] = ((x, (x.size(), x.stride(), x.storage_offset())) for x in tensors)
        storages[:] = ((x, _nbytes(x)) for x in tensors)
        unpacked = unpack((args, kwargs))
        watches[:] = [Watch(module, unpacked)]
        return unpacked

    def after(_: object, args: object, output: object) -> object:
        _restore(places)
        watches[0].check()
        return pack(output)

    hooks = [
        module.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
        module.register_forward_hook(after),
    ]
    try:
        yield storages
    finally:
        for hook in hooks:
            hook.remove()


def _nbytes(tensor: torch.Tensor) -> int | torch.SymInt:
    """Returns the size of a tensor's storage in bytes; 0 if it has no storage."""
    if tensor.layout is not torch.strided or is_wrapper(tensor):
        return 0
    nbytes: int | torch.SymInt = tensor.untyped_storage().nbytes()
    return nbytes


_Geometry = tuple[torch.Size, tuple[int, ...], int | torch.SymInt]
"""Sizes, strides and offset of a tensor."""
_RESIZING = ("aten::resize_", "aten::set_", "inductor::resize_storage_bytes_")


def _check_storages(
    storages: list[tuple[torch.Tensor, int | torch.SymInt]], program: ExportedProgram
) -> None:
    """Raises CaptureError FE105 if storage sizes of arguments changed without a traced operator that
    resizes."""
    # Compared as text: comparing symbols would add a guard. The text includes replacements of symbols by the
    # trace.
    if all(str(_nbytes(tensor)) == str(nbytes) for tensor, nbytes in storages):
        return
    schemas = (getattr(n.target, "_schema", None) for n in program.graph.nodes)  # operators have one
    if not any(schema is not None and schema.name in _RESIZING for schema in schemas):
        raise CaptureError(
            "FE105",
            "`x.untyped_storage().resize_(n)` of an argument is lost by torch.export",
            hint="write torch.ops.inductor.resize_storage_bytes_(x, n), which a graph can contain",
        )


def _restore(places: list[tuple[torch.Tensor, _Geometry]]) -> None:
    """Restores the sizes, strides and offsets of tensors without tracing."""
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

    for tensor, (sizes, strides, offset) in places:
        now = (tensor.size(), tensor.stride(), tensor.storage_offset())
        if str(now) != str((sizes, strides, offset)):  # comparing symbols would add a guard
            fake_mode = detect_fake_mode([tensor])
            assert fake_mode is not None, "a trace is of fake tensors"
            assert fake_mode.shape_env is not None
            with disable_proxy_modes_tracing(), fake_mode.shape_env.suppress_guards():
                tensor.as_strided_(sizes, strides, offset)
