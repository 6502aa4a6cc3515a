"""Launches of Triton kernels in place of matmuls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, Sym, add, bounds, ceildiv, mul
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.cleanup.result_storages import allocate_result
from wrapper_ir_passes.devices.matmul_calls import Matmul
from wrapper_ir_passes.devices.matmul_configs import Extents, Plan, gpu_of, plan
from wrapper_ir_passes.devices.source_kernels import INT32, SourceKernel, SourceLaunches, fixed_number

_FILE, _MATMUL, _VECTOR, _ADD = "matmul_kernel.txt", "matmul", "vector_matmul", "add_parts"
_DIMENSIONS = ("batch", "row", "column")
_MAX_BLOCK = 2048
_ADD_BLOCK = 256
_Tensor = ir.Value[ir.TensorType]


@dataclass
class MatmulLaunches(SourceLaunches):
    """Writes launches for matmuls, and collects their kernels."""

    def write(self, call: Matmul, op: ir.CallExtern, new: NewNames) -> Iterator[ir.Op]:
        """Yields an allocation of a new result, and launches that compute it."""
        if call.is_new:
            yield from allocate_result(op, call.result, new)
        planned = plan(self._extents(call), gpu_of(self.analyses.program.target.arch))
        tensors = dict(_tensors(call))
        constants = self._constants(call, planned)
        if planned.splits == 1:
            yield self.launch(self._kernel(call, planned, tensors, constants), op, call.sizes[0])
            return
        sums = _parts(call, planned.splits, new)
        yield from allocate_result(op, sums, new)
        factors = {"first": call.first, "second": call.second, "sums": sums}
        yield self.launch(self._kernel(call, planned, factors, constants), op, call.sizes[0])
        rest = {name: tensor for name, tensor in tensors.items() if name not in factors}
        adding = SourceKernel(
            file=_FILE,
            entry=_ADD,
            tensors={"sums": sums} | rest,
            outputs=("out",),
            numbers=_numbers(call),
            constants=constants,
            configs=(ir.TritonConfig(meta=(("BLOCK", _ADD_BLOCK),), num_warps=4, num_stages=1),),
            grid=ceildiv(Sym("count"), Sym("BLOCK")),
            grid_param="batch",
        )
        yield self.launch(adding, op, call.sizes[0])

    def _kernel(
        self, call: Matmul, planned: Plan, tensors: dict[str, _Tensor], constants: dict[str, ir.ConstantValue]
    ) -> SourceKernel:
        """Returns the kernel that multiplies, over all of the depth or over parts."""
        columns = ceildiv(Sym("columns"), Sym("BLOCK_N"))
        rows = Sym("rows") if planned.is_vector else ceildiv(Sym("rows"), Sym("BLOCK_M"))
        return SourceKernel(
            file=_FILE,
            entry=_VECTOR if planned.is_vector else _MATMUL,
            tensors=tensors,
            outputs=("out", "sums"),
            numbers=_numbers(call),
            constants=constants,
            configs=planned.configs,
            grid=mul(rows, columns, Sym("SPLITS"), Sym("batch")),
            grid_param="batch",
        )

    def _constants(self, call: Matmul, planned: Plan) -> dict[str, ir.ConstantValue]:
        """Returns what the source is specialized to, by the names of parameters."""
        return {
            "BIAS": call.bias is not None,
            "ALPHA": call.alpha,
            "BETA": call.beta,
            "SPLITS": planned.splits,
            "WIDE": not self._is_narrow(call),
        }

    def _extents(self, call: Matmul) -> Extents:
        batch, rows, columns, depth = (self.sizes.number(size) for size in call.sizes)
        return Extents(
            batch=batch,
            rows=rows,
            columns=columns,
            depth=depth,
            fixed_rows=fixed_number(call.sizes[1]),
            fixed_columns=fixed_number(call.sizes[2]),
            fixed_depth=fixed_number(call.sizes[3]),
            itemsize=call.result.type.dtype.itemsize,
            is_deep=fixed_number(call.second.type.strides[-1]) != 1,
        )

    def _is_narrow(self, call: Matmul) -> bool:
        """Returns whether all offsets inside of a matrix have 32 bits."""
        _, rows, columns, depth = call.sizes
        for name, tensor in _tensors(call):
            sizes = {"first": (rows, depth), "second": (depth, columns)}.get(name, (rows, columns))
            strides = call.strides(tensor)[1:]
            # blocks reach beyond the sizes
            reach = add(*(mul(add(s, Int(_MAX_BLOCK)), t) for s, t in zip(sizes, strides, strict=True)))
            if not bounds(reach, self.ranges).high <= INT32:
                return False
        return True


def _tensors(call: Matmul) -> Iterator[tuple[str, _Tensor]]:
    yield from (("first", call.first), ("second", call.second))
    if call.bias is not None:
        yield "bias", call.bias
    yield "out", call.result


def _numbers(call: Matmul) -> dict[str, Expr]:
    """Returns sizes and strides by the names of parameters."""
    batches, rows, columns, depth = call.sizes
    numbers: dict[str, Expr] = {f"bias_{dim}": Int(0) for dim in _DIMENSIONS}
    for name, tensor in _tensors(call):
        strides = call.strides(tensor)
        numbers |= {f"{name}_{dim}": stride for dim, stride in zip(_DIMENSIONS, strides, strict=True)}
    count = mul(batches, rows, columns)
    return numbers | {"batches": batches, "rows": rows, "columns": columns, "depth": depth, "count": count}


def _parts(call: Matmul, splits: int, new: NewNames) -> _Tensor:
    """Returns a tensor for the sums over parts of the depth."""
    sizes = (Int(splits), *call.sizes[:3])
    type = ir.TensorType(ir.DType.F32, sizes, ir.contiguous_strides(sizes), call.result.type.device)
    return ir.Value(new(f"{call.result.name}.sums"), type)
