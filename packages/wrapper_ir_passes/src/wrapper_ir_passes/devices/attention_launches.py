"""Launches of Triton kernels in place of calls of attention."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, Sym, add, bounds, ceildiv, mul
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.cleanup.result_storages import allocate_result
from wrapper_ir_passes.devices.attention_calls import Attention
from wrapper_ir_passes.devices.attention_configs import Extents, configs, split_count
from wrapper_ir_passes.devices.source_kernels import INT32, SourceKernel, SourceLaunches, fixed_number

_FILE, _ENTRY, _COMBINE = "attention_kernel.txt", "attention", "combine"
_DIMENSIONS = ("batch", "head", "row", "column")
_MAX_BLOCK = 128
_LOG2_E = 1 / math.log(2)
_Tensor = ir.Value[ir.TensorType]


@dataclass
class AttentionLaunches(SourceLaunches):
    """Writes launches for calls of attention, and collects their kernels."""

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
        kernel = SourceKernel(
            file=_FILE,
            entry=_ENTRY,
            tensors=names,
            outputs=("out",) if splits == 1 else ("sums", "stats"),
            numbers=numbers,
            constants=constants,
            configs=configs(extents),
            grid=blocks,
            grid_param="batch",
        )
        yield self.launch(kernel, op, batch)
        if splits > 1:
            names = {"sums": names["sums"], "stats": names["stats"], "out": call.result}
            only = (ir.TritonConfig(meta=(), num_warps=4, num_stages=1),)
            kernel = dataclasses.replace(
                kernel,
                entry=_COMBINE,
                tensors=names,
                outputs=("out",),
                configs=only,
                grid=mul(rows, group, heads),
            )
            yield self.launch(kernel, op, batch)

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
            if not bounds(reach, self.ranges).high <= INT32:
                return False
        return True


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
