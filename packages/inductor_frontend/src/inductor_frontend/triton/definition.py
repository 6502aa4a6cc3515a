"""One of Inductor's Triton kernels as typed data, independent of its calls."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from inductor_frontend.errors import ConversionError
from inductor_frontend.record.events import CallKernel
from inductor_frontend.requirements import required_modules
from inductor_frontend.triton.candidates import candidates_of
from inductor_frontend.triton.grids import grid_of, own_grids
from inductor_frontend.triton.source import kernel_constant, read_source
from wrapper_ir import ir
from wrapper_ir.expr import Int

# Any in this file: Inductor's metadata.

_TYPES = {
    "fp64": ir.DType.F64,
    "fp32": ir.DType.F32,
    "fp16": ir.DType.F16,
    "bf16": ir.DType.BF16,
    "fp8e4nv": ir.DType.F8E4M3FN,
    "fp8e5": ir.DType.F8E5M2,
    "fp8e4b8": ir.DType.F8E4M3FNUZ,
    "fp8e5b16": ir.DType.F8E5M2FNUZ,
    "i64": ir.DType.I64,
    "i32": ir.DType.I32,
    "i16": ir.DType.I16,
    "i8": ir.DType.I8,
    "i1": ir.DType.BOOL,
    "u64": ir.DType.U64,
    "u32": ir.DType.U32,
    "u16": ir.DType.U16,
    "u8": ir.DType.U8,
}
"""Element types by Triton's name."""

_ALIGNMENT = 16
_USER = "user_autotune"


_ROLES = ("in_ptr", "out_ptr", "arg_")
"""Prefixes of Inductor's parameters that only read a buffer, or only write it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonDefinition:
    """A kernel without the properties that its calls determine, such as the access through each pointer.

    `positions` are its parameters' positions among the `arguments` arguments of Inductor's calls. `writes`
    are the parameters that it updates in place. With `restores_updated`, the autotuner restores every
    parameter that is updated in place.
    """

    kernel: ir.TritonKernel
    positions: tuple[int, ...]
    arguments: int
    writes: frozenset[str]
    restores_updated: bool

    @property
    def identity(self) -> Hashable:
        """Key that differs for definitions of one name with different calling conventions."""
        return self.positions, self.kernel.configs

    def access(self, param: ir.KernelParam, buffer: str, event: CallKernel) -> ir.Access:
        """Returns the access of a call through a pointer.

        A buffer that this kernel produces is written completely. Any other buffer may be written partially,
        so that its old content counts as read.
        """
        if event.writes is not None:
            return ir.Access.READWRITE if param.name in event.writes else ir.Access.READ
        is_produced = buffer in event.produced
        if param.name.startswith("in_out_ptr") and is_produced:
            # Replaces a buffer of the same kernel; an atomic addition reads the old content.
            return ir.Access.READWRITE if "tl.atomic" in self.kernel.source else ir.Access.WRITE
        if param.name in self.writes or not param.name.startswith(_ROLES):
            return ir.Access.READWRITE
        if param.name.startswith("arg_"):  # parameter of a template
            return ir.Access.READWRITE if buffer in event.changed else ir.Access.READ
        if param.name.startswith("in_ptr"):
            return ir.Access.READ
        return ir.Access.WRITE if is_produced else ir.Access.READWRITE

    def completed(self, name: str, params: tuple[ir.KernelParam, ...], device: str) -> ir.TritonKernel:
        """Returns the kernel with the parameters of its calls; it is the same for all device types."""
        updated = tuple(p.name for p in params if p.access is ir.Access.READWRITE)
        return replace(
            self.kernel,
            name=name,
            params=params,
            restore=updated if self.restores_updated else self.kernel.restore,
            requires=required_modules(self.kernel.source),
        )


def element_type(kernel: str, text: str) -> ir.DType:
    """Returns the element type of Triton's name `text`; raises ConversionError FE303."""
    dtype = _TYPES.get(text)
    if dtype is None:
        raise ConversionError("FE303", f"kernel {kernel} has a parameter of type {text!r}")
    return dtype


def definition_of(name: str, text: str) -> TritonDefinition:
    """Reads the module of a kernel; raises ConversionError FE303 if it has no typed form."""
    source = read_source(name, text)
    candidates = candidates_of(name, source)
    triton_meta: Mapping[str, Any] = source.arguments["triton_meta"]
    signature: Mapping[str, str] = triton_meta["signature"]
    metas = {n for c in candidates.configs for n, _ in c.meta}
    parameters = [n for n in source.order if n in signature and n not in source.constexprs]
    values = {**source.defaults, **triton_meta.get("constants", {})}
    constants = {n: v for n, v in values.items() if n in source.order and n not in metas}
    for n in parameters:
        if signature[n] != "constexpr":
            constants.pop(n, None)  # a default that the call overrides
    divisible = _divisible(name, triton_meta, list(signature))
    names = [n for n in parameters if n not in constants and signature[n] != "constexpr"]
    own = candidates.meta.get("grid_type") == "PrecomputedGrid"
    configs = own_grids(name, candidates.meta, candidates.configs) if own else candidates.configs
    requested = triton_meta.get("backend_options", {})
    cooperative = bool({**triton_meta, **requested}.get("launch_cooperative_grid"))
    kernel = ir.TritonKernel(
        name=name,
        source=source.text,
        entry=source.entry,
        order=source.order,
        params=tuple(_param(name, n, signature[n], n in divisible) for n in names),
        constants=tuple((n, kernel_constant(name, n, constants[n])) for n in source.order if n in constants),
        configs=configs,
        grid=configs[0].grid or grid_of(name, candidates.meta, [n for n, _ in configs[0].meta]),
        grid_params=tuple(candidates.meta.get("extra_launcher_args", ())),
        derive=_derivations(candidates.meta, source.heuristic),
        options=_options(name, triton_meta),
        restore=candidates.mutated,
        reset=candidates.reset,
        size_hints=candidates.size_hints,
        heuristic="user" if source.heuristic == _USER else source.heuristic,
        cooperative=cooperative,
        multiprocessors=triton_meta["device"].multi_processor_count if cooperative else None,
    )
    return TritonDefinition(
        kernel=kernel,
        positions=tuple(parameters.index(n) for n in names),
        arguments=len(parameters),
        writes=frozenset(candidates.mutated),
        restores_updated=source.heuristic != _USER,
    )


_DESCRIPTOR = re.compile(r"tensordesc<(?P<type>\w+)\[(?P<block>[\d, ]+)\]>")


def _param(kernel: str, name: str, type: str, divisible: bool) -> ir.KernelParam:
    described = _DESCRIPTOR.fullmatch(type)
    if described is not None:
        block = tuple(Int(int(size)) for size in described["block"].split(","))
        dtype = element_type(kernel, described["type"])
        return ir.KernelParam(name=name, kind=ir.ParamKind.DESCRIPTOR, dtype=dtype, block=block)
    kind = ir.ParamKind.POINTER if type.startswith("*") else ir.ParamKind.SCALAR
    dtype = element_type(kernel, type.removeprefix("*"))
    # torch 2.11 declares False a multiple of 16
    is_flag = kind is ir.ParamKind.SCALAR and dtype is ir.DType.BOOL
    return ir.KernelParam(
        name=name, kind=kind, dtype=dtype, divisible=_ALIGNMENT if divisible and not is_flag else 1
    )


def _divisible(kernel: str, meta: Mapping[str, Any], names: list[str]) -> set[str]:
    """Returns the parameters that Inductor guarantees to be multiples of 16."""
    parameters: set[str] = set()
    for described in meta.get("configs", []):
        if not isinstance(described, dict):
            raise ConversionError("FE303", f"kernel {kernel}: attributes of class {type(described).__name__}")
        for (position,), attributes in described.items():
            for attribute, value in attributes:
                if attribute == "tt.divisibility" and value == _ALIGNMENT:
                    parameters.add(names[position])
                else:
                    raise ConversionError("FE303", f"kernel {kernel}: attribute {attribute} = {value}")
    return parameters


def _derivations(meta: Mapping[str, Any], heuristic: str) -> tuple[ir.Derivation, ...]:
    derive = []
    if meta.get("dynamic_scale_rblock") and heuristic == "reduction":
        derive.append(ir.Derivation.SCALED_REDUCTION)
    if meta.get("coordinate_descent_tuning"):
        derive.append(ir.Derivation.COORDINATE_DESCENT)
    return tuple(derive)


_READ = (
    "signature",
    "device",
    "constants",
    "configs",
    "native_matmul",
    "launch_cooperative_grid",
    "restore_value",
    "reset_to_zero",
    "backend_options",
)
_OFF = ("disable_reductions",)
"""Options without effect while they are false."""
_OPTIONS: Mapping[str, tuple[str, ir.ConstantValue, ir.ConstantValue]] = {
    "enable_fp_fusion": ("enable_fp_fusion", True, False),
    "launch_pdl": ("launch_pdl", False, True),
    "disable_ftz": ("enable_reflect_ftz", False, False),
}
"""Compiler options by Inductor's name: Triton's name, Inductor's default, and Triton's value otherwise."""


def _options(kernel: str, meta: Mapping[str, Any]) -> tuple[tuple[str, ir.ConstantValue], ...]:
    """Returns compiler options that all configs share."""
    for key, value in meta.items():
        if key in _READ or key in _OPTIONS or (key in _OFF and not value):
            continue
        raise ConversionError("FE303", f"kernel {kernel}: Inductor's {key} = {value!r} has no typed form")
    shared = {
        name: value
        for key, (name, default, value) in _OPTIONS.items()
        if bool(meta.get(key, default)) is not default
    }
    for name, value in meta.get("backend_options", {}).items():  # options that a launch passes by name
        if name not in _READ:
            shared[name] = kernel_constant(kernel, f"option {name}", value)
    return tuple(shared.items())
