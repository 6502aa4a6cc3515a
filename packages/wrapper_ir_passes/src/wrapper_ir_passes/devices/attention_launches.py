"""Launches of Triton kernels in place of calls of attention."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.expr import Expr, Int, Interval, Sym, add, bounds, ceildiv, mul
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.cleanup.result_storages import allocate_result
from wrapper_ir_passes.devices.attention_calls import Attention, fixed_number
from wrapper_ir_passes.devices.attention_configs import Extents, configs, split_count

ENTRY, COMBINE = "attention", "combine"
DIVISIBLE = 16
_DIMENSIONS = ("batch", "head", "row", "column")
_INT32 = 2**31 - 1
_MAX_BLOCK = 128
_LOG2_E = 1 / math.log(2)
_Tensor = ir.Value[ir.TensorType]


@lru_cache
def _source() -> str:
    return (Path(__file__).parent / "attention_kernel.txt").read_text(encoding="utf-8")


@lru_cache
def _order(entry: str) -> tuple[str, ...]:
    """Returns the parameters of a function of the source, in order."""
    functions = (node for node in ast.parse(_source()).body if isinstance(node, ast.FunctionDef))
    return tuple(a.arg for function in functions if function.name == entry for a in function.args.args)


@dataclass
class AttentionLaunches:
    """Writes launches, and collects `kernels`, one for each, whose pointers are declared as divisible."""

    analyses: Analyses
    kernels: dict[str, ir.TritonKernel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        program = self.analyses.program
        self.sizes = Sizes(program)
        self.ranges = {s.name: Interval(s.lower, s.upper) for s in program.symbols}
        self.reserved = {kernel.name for kernel in program.kernels}

    def write(self, call: Attention, op: ir.CallExtern, new: NewNames) -> Iterator[ir.Op]:
        """Yields an allocation of the result, and launches that compute it."""
        yield from allocate_result(op, call.result, new)
        extents = self._extents(call)
        splits = split_count(extents)
        names = dict(self._tensors(call))
        numbers, constants = self._numbers(call), self._constants(call, extents, splits)
        if splits > 1:
            del names["out"]
            parts = _parts(call, splits, new)
            for part in parts.values():
                yield from allocate_result(op, part, new)
            names |= parts
        batch = call.query.type.sizes[0]
        group, rows, heads = Sym("group"), Sym("rows"), mul(Sym("batch"), Sym("kv_heads"))
        blocks = mul(ceildiv(mul(rows, group), Sym("BLOCK_M")), heads, Sym("SPLITS"))
        kernel = _Kernel(ENTRY, names, numbers, constants, configs(extents), blocks)
        yield self._launch(kernel, op, batch)
        if splits > 1:
            names = {"sums": names["sums"], "stats": names["stats"], "out": call.result}
            only = (ir.TritonConfig(meta=(), num_warps=4, num_stages=1),)
            kernel = _Kernel(COMBINE, names, numbers, constants, only, mul(rows, group, heads))
            yield self._launch(kernel, op, batch)

    def _constants(self, call: Attention, extents: Extents, splits: int) -> dict[str, ir.ConstantValue]:
        """Returns what the source is specialized to, by the names of parameters.

        Scores with a mask keep their scale: the least number of a mask would overflow in powers of two.
        """
        factor, base = (call.scale * _LOG2_E, 1.0) if call.mask is None else (call.scale, _LOG2_E)
        return {
            "WIDTH": call.width,
            "VALUE_WIDTH": call.value_width,
            "BLOCK_D": extents.depth,
            "BLOCK_V": extents.value_depth,
            "MASK": _mask_kind(call.mask),
            "CAUSAL": call.is_causal,
            "FACTOR": factor,
            "BASE": base,
            "SPLITS": splits,
            "WIDE": not self._is_narrow(call),
        }

    def _tensors(self, call: Attention) -> Iterator[tuple[str, _Tensor]]:
        yield from (("q", call.query), ("k", call.key), ("v", call.value))
        if call.mask is not None:
            yield "mask", call.mask
        yield "out", call.result

    def _strides(self, call: Attention) -> Iterator[tuple[str, Expr]]:
        for name, value in self._tensors(call):
            strides = call.mask_strides if name == "mask" else value.type.strides
            yield from ((f"{name}_{dim}", stride) for dim, stride in zip(_DIMENSIONS, strides, strict=True))

    def _numbers(self, call: Attention) -> dict[str, Expr]:
        """Returns sizes and strides by the names of parameters."""
        strides = dict(self._strides(call))
        strides |= {f"mask_{dim}": Int(0) for dim in _DIMENSIONS if call.mask is None}
        _, _, rows, _ = call.query.type.sizes
        _, kv_heads, keys, _ = call.key.type.sizes
        return {"rows": rows, "keys": keys, "group": Int(call.group), "kv_heads": kv_heads} | strides

    def _extents(self, call: Attention) -> Extents:
        batch, _, rows, _ = map(self.sizes.number, call.query.type.sizes)
        _, kv_heads, keys, _ = map(self.sizes.number, call.key.type.sizes)
        return Extents(
            heads=batch * kv_heads,
            rows=rows * call.group,
            keys=keys,
            fixed_keys=fixed_number(call.key.type.sizes[2]),
            depth=_padded(call.width),
            value_depth=_padded(call.value_width),
            itemsize=call.query.type.dtype.itemsize,
        )

    def _is_narrow(self, call: Attention) -> bool:
        """Returns whether all offsets inside of a batch have 32 bits."""
        heads, rows = call.query.type.sizes[1:3]
        scores = (Int(0), heads, rows, call.key.type.sizes[2])
        for name, value in self._tensors(call):
            strides = call.mask_strides if name == "mask" else value.type.strides
            sizes = scores if name == "mask" else value.type.sizes
            # padded blocks reach beyond the sizes
            reach = add(
                *(mul(add(s, Int(_MAX_BLOCK)), t) for s, t in zip(sizes[1:], strides[1:], strict=True))
            )
            if not bounds(reach, self.ranges).high <= _INT32:
                return False
        return True

    def _launch(self, kernel: _Kernel, op: ir.CallExtern, batch: Expr) -> ir.Launch:
        """Returns a launch of a kernel that is defined for it alone."""
        name = f"{kernel.entry}_{len(self.kernels)}"
        while name in self.reserved:
            name += "_"
        self.kernels[name] = kernel.definition(name, self.ranges)
        args = tuple(kernel.argument(p.name) for p in self.kernels[name].params)
        return ir.Launch(kernel=name, args=args, grid=(batch,), stream=op.stream, prov=op.prov)


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A function of the source with its arguments."""

    entry: str
    tensors: Mapping[str, _Tensor]
    numbers: Mapping[str, Expr]
    constants: Mapping[str, ir.ConstantValue]
    configs: tuple[ir.TritonConfig, ...]
    grid: Expr

    def argument(self, name: str) -> ir.Arg:
        return self.tensors[name] if name in self.tensors else self.numbers[name]

    def definition(self, name: str, ranges: Mapping[str, Interval]) -> ir.TritonKernel:
        order = _order(self.entry)
        meta = {key for key, _ in self.configs[0].meta}
        params: list[ir.KernelParam] = []
        constants: list[tuple[str, ir.ConstantValue]] = []
        for each in order:
            number = self.numbers.get(each)
            fixed = None if number is None else fixed_number(number)
            if each in self.tensors:
                params.append(_pointer(each, self.tensors[each].type.dtype, self.entry))
            elif number is not None and fixed is None:
                params.append(_scalar(each, number, ranges))
            elif each not in meta:
                constants.append((each, self.constants.get(each, fixed)))
        return ir.TritonKernel(
            name=name,
            params=tuple(params),
            source=_source(),
            entry=self.entry,
            order=order,
            configs=self.configs,
            grid=(self.grid,),
            grid_params=("batch",),
            constants=tuple(constants),
        )


def _pointer(name: str, dtype: ir.DType, entry: str) -> ir.KernelParam:
    is_output = name == "out" or (entry == ENTRY and name in ("sums", "stats"))
    access = ir.Access.WRITE if is_output else ir.Access.READ
    return ir.KernelParam(
        name=name, kind=ir.ParamKind.POINTER, dtype=dtype, access=access, divisible=DIVISIBLE
    )


def _scalar(name: str, number: Expr, ranges: Mapping[str, Interval]) -> ir.KernelParam:
    interval = bounds(number, ranges)
    dtype = ir.DType.I32 if interval.low >= 0 and interval.high <= _INT32 else ir.DType.I64
    modulus, rest = ir.remainder(number)
    divisible = 1 if modulus % DIVISIBLE or rest % DIVISIBLE else DIVISIBLE
    return ir.KernelParam(name=name, kind=ir.ParamKind.SCALAR, dtype=dtype, divisible=divisible)


def _mask_kind(mask: _Tensor | None) -> int:
    """Returns 0 without a mask, 1 for numbers to add, 2 for truth values."""
    if mask is None:
        return 0
    return 2 if mask.type.dtype is ir.DType.BOOL else 1


def _padded(width: int) -> int:
    return max(16, 1 << (width - 1).bit_length())


def _parts(call: Attention, splits: int, new: NewNames) -> dict[str, _Tensor]:
    """Returns tensors for what programs compute of parts of the keys."""
    rows = ir.numel(call.query.type.sizes[:3])

    def part(name: str, width: int) -> _Tensor:
        sizes = (rows, Int(splits), Int(width))
        type = ir.TensorType(ir.DType.F32, sizes, ir.contiguous_strides(sizes), call.result.type.device)
        return ir.Value(new(f"{call.result.name}.{name}"), type)

    return {"sums": part("sums", call.value_width), "stats": part("stats", 2)}
