"""The kernels and operators of random programs. The C++ compiles, and does what the parameters declare."""

from __future__ import annotations

import dataclasses

from wrapper_ir import ir
from wrapper_ir.expr import Sym
from wrapper_ir.expr.operators import CEILDIV


def _pointer(name: str, access: ir.Access, *may_alias: str) -> ir.KernelParam:
    return ir.KernelParam(
        name=name, kind=ir.ParamKind.POINTER, dtype=ir.DType.F32, access=access, may_alias=may_alias
    )


def _scalar(name: str, dtype: ir.DType) -> ir.KernelParam:
    return ir.KernelParam(name=name, kind=ir.ParamKind.SCALAR, dtype=dtype)


_LENGTH = _scalar("n", ir.DType.I64)


def _kernel(name: str, params: tuple[ir.KernelParam, ...], arguments: str, body: str) -> ir.CppKernel:
    source = f'#include <cstdint>\n\nextern "C" void {name}({arguments}) {{\n    {body}\n}}\n'
    return ir.CppKernel(name=name, params=params, source=source, entry=name)


RELU = _kernel(
    "relu",
    (_pointer("in_ptr0", ir.Access.READ), _pointer("out_ptr0", ir.Access.WRITE), _LENGTH),
    "const float* in_ptr0, float* out_ptr0, int64_t n",
    "for (int64_t i = 0; i < n; ++i) out_ptr0[i] = in_ptr0[i] > 0 ? in_ptr0[i] : 0;",
)
"""`out = max(in, 0)`, n elements each."""

ADD = _kernel(
    "add",
    (
        _pointer("in_ptr0", ir.Access.READ, "out_ptr0"),
        _pointer("in_ptr1", ir.Access.READ, "out_ptr0"),
        _pointer("out_ptr0", ir.Access.WRITE, "in_ptr0", "in_ptr1"),
        _LENGTH,
    ),
    "const float* in_ptr0, const float* in_ptr1, float* out_ptr0, int64_t n",
    "for (int64_t i = 0; i < n; ++i) out_ptr0[i] = 0.5f * (in_ptr0[i] + in_ptr1[i]);",
)
"""`out = (a + b) / 2`, in place if the arguments alias."""

SCALE = _kernel(
    "scale",
    (_pointer("in_out_ptr0", ir.Access.READWRITE), _scalar("factor", ir.DType.F64), _LENGTH),
    "float* in_out_ptr0, double factor, int64_t n",
    "for (int64_t i = 0; i < n; ++i) in_out_ptr0[i] = static_cast<float>(in_out_ptr0[i] * factor);",
)
"""`x *= factor`."""

FILL = _kernel(
    "fill",
    (_pointer("out_ptr0", ir.Access.WRITE), _scalar("value", ir.DType.F64), _LENGTH),
    "float* out_ptr0, double value, int64_t n",
    "for (int64_t i = 0; i < n; ++i) out_ptr0[i] = static_cast<float>(value);",
)
"""`x = value`."""

PROBE = _kernel(
    "probe",
    (
        dataclasses.replace(_pointer("in_ptr0", ir.Access.READ), divisible=4),
        _scalar("size", ir.DType.I64),
        _scalar("ratio", ir.DType.F64),
    ),
    "const float* in_ptr0, int64_t size, double ratio",
    "(void)in_ptr0; (void)size; (void)ratio;",
)
"""Accepts numbers and ignores them."""

TRITON = ir.TritonKernel(
    name="triton_relu",
    params=(
        dataclasses.replace(_pointer("in_ptr0", ir.Access.READ), divisible=16),
        _pointer("out_ptr0", ir.Access.WRITE),
        _scalar("xnumel", ir.DType.I32),
    ),
    source="""import triton
import triton.language as tl


@triton.jit
def relu(in_ptr0, out_ptr0, xnumel, floor, XBLOCK: tl.constexpr):
    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    value = tl.load(in_ptr0 + x, x < xnumel)
    tl.store(out_ptr0 + x, tl.maximum(value, floor), x < xnumel)
""",
    entry="relu",
    order=("in_ptr0", "out_ptr0", "xnumel", "floor", "XBLOCK"),
    configs=tuple(
        ir.TritonConfig(meta=(("XBLOCK", block),), num_warps=warps, num_stages=1)
        for block, warps in ((128, 4), (64, 2))
    ),
    grid=(CEILDIV(Sym("xnumel"), Sym("XBLOCK")), Sym("copies")),
    grid_params=("copies",),
    constants=(("floor", 0.0),),
    derive=(ir.Derivation.COORDINATE_DESCENT,),
    restore=("out_ptr0",),
    size_hints=(("x", 64),),
    heuristic="pointwise",
)
"""`out = max(in, 0)`, `copies` times."""

FOREIGN = ir.ForeignKernel(
    name="foreign", params=RELU.params, runtime="some-runtime", payload='{"code": "}}}\\n"}\n}}}\n'
)
"""A kernel in a format that only its plug-in understands."""

EXTERNS: dict[str, ir.ExternDef] = {
    e.name: e
    for e in (
        ir.ExternDef(schema="aten::relu(Tensor self) -> Tensor"),
        ir.ExternDef(schema="aten::sigmoid_(Tensor(a!) self) -> Tensor(a!)"),
        ir.ExternDef(schema="aten::gelu(Tensor self, *, str approximate='none') -> Tensor"),
        ir.ExternDef(
            schema="aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
        ),
        ir.ExternDef(schema="aten::cat(Tensor[] tensors, int dim=0) -> Tensor"),
        ir.ExternDef(schema="aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"),
        ir.ExternDef(
            schema="aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
            "Device? device=None, bool? pin_memory=None) -> Tensor"
        ),
        ir.ExternDef(
            schema="aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> "
            "(Tensor values, Tensor indices)"
        ),
        ir.ExternDef(schema="aten::nonzero(Tensor self) -> Tensor"),
        ir.ExternDef(
            schema="aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
            tags=(ir.ExternTag.MAY_ALIAS,),
        ),
        ir.ExternDef(
            schema="aten::normal_(Tensor(a!) self, float mean=0, float std=1, *, "
            "Generator? generator=None) -> Tensor(a!)",
            tags=(ir.ExternTag.RANDOM,),
        ),
        ir.ExternDef(
            schema="_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor",
            tags=(ir.ExternTag.COLLECTIVE,),
        ),
        ir.ExternDef(
            schema=(
                "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)"
            ),
            tags=(ir.ExternTag.COLLECTIVE,),
        ),
        ir.ExternDef(
            schema="_c10d_functional::all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, "
            "str group_name) -> Tensor[]",
            tags=(ir.ExternTag.COLLECTIVE,),
        ),
    )
}
"""Operators by name."""
