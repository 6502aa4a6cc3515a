"""One instance of every op with every field filled in, inside one program that declares what they refer to.

Shared by the tests of the core; `SAMPLES` is checked against the op union in `test_core_structure.py`.
"""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr, Int, Sym, add, eq, lt, mul

CUDA = ir.Device("cuda", 0)
S0 = Sym("s0")
PROV = ir.Provenance(
    nodes=("linear",),
    ops=("aten.linear.default",),
    locations=("m.py:3",),
    modules=("mlp",),
    frontend_name="buf0",
)


def tensor(
    name: str, *sizes: int | Expr, dtype: ir.DType = ir.DType.F32, device: ir.Device = ir.CPU
) -> ir.Value[ir.TensorType]:
    """A contiguous tensor value."""
    size = tuple(Int(s) if isinstance(s, int) else s for s in sizes)
    return ir.Value(name, ir.TensorType(dtype, size, ir.contiguous_strides(size), device))


def storage(name: str, nbytes: int) -> ir.Value[ir.StorageType]:
    """A storage value on the CPU."""
    return ir.Value(name, ir.StorageType(Int(nbytes)))


S, PART = storage("s", 32), storage("part", 16)
X, Y, Z, W = tensor("x", 8), tensor("y", 8), tensor("z", 8), tensor("w", 8)
EVENT = ir.Value("e", ir.OpaqueType(ir.OpaqueKind.EVENT))
RESULTS = ir.Value("t", ir.TupleType())


def _pointer(name: str, access: ir.Access) -> ir.KernelParam:
    return ir.KernelParam(name=name, kind=ir.ParamKind.POINTER, dtype=ir.DType.F32, access=access)


KERNEL = ir.CppKernel(
    name="k",
    params=(
        _pointer("in_ptr0", ir.Access.READ),
        _pointer("out_ptr0", ir.Access.WRITE),
        _pointer("in_out_ptr0", ir.Access.READWRITE),
        ir.KernelParam(name="ks0", kind=ir.ParamKind.SCALAR, dtype=ir.DType.I64),
    ),
    source='extern "C" void kernel(const float*, float*, float*, long) {}',
    entry="kernel",
    isa=("avx512",),
    variants=(
        ir.CppSource(source='extern "C" void kernel(const float*, float*, float*, long) { }', isa=("avx2",)),
    ),
    requires=(
        ir.Requirement(name="torch/csrc/inductor/cpp_prefix.h", origin="torch 2.13.0", sha256="0" * 64),
    ),
)

EXTERNS = (
    ir.ExternDef(schema="aten::relu(Tensor self) -> Tensor"),
    ir.ExternDef(
        schema="aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, "
        "Tensor(a!) out) -> Tensor(a!)"
    ),
    ir.ExternDef(schema="aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"),
    ir.ExternDef(schema="aten::t(Tensor(a) self) -> Tensor(a)"),
    ir.ExternDef(
        schema="aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", tags=(ir.ExternTag.MAY_ALIAS,)
    ),
    ir.ExternDef(schema="aten::topk(Tensor self, SymInt k) -> (Tensor values, Tensor indices)"),
    ir.ExternDef(schema="aten::cat(Tensor[] tensors, int dim=0) -> Tensor"),
    ir.ExternDef(
        schema="aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"
    ),
    ir.ExternDef(
        schema="aten::rand(SymInt[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
        tags=(ir.ExternTag.RANDOM,),
    ),
    ir.ExternDef(schema="aten::warn(str message) -> ()", tags=(ir.ExternTag.HOST_IO, ir.ExternTag.EFFECTFUL)),
    ir.ExternDef(
        schema="c10d::all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]"
    ),
    ir.ExternDef(schema="lib::variadic(...) -> Tensor"),
)


def _function(name: str, params: tuple[ir.Param, ...], body: tuple[ir.Op, ...]) -> ir.Function:
    return ir.Function(name=name, params=params, body=body, captures=("s0",))


A, B = tensor("a", 8), tensor("b", 8)
BORROWED = (ir.Param(value=A), ir.Param(value=B))
FUNCTIONS = (
    _function("main", (ir.Param(value=X), ir.Param(value=Y)), (ir.Return(values=()),)),
    _function(  # reads a, makes its result
        "fresh", BORROWED, (ir.CallExtern(target="aten::relu", args=(A,), result=Z), ir.Return(values=(Z,)))
    ),
    _function(  # writes b, returns a
        "through", BORROWED, (ir.CallExtern(target="aten::add_.Tensor", args=(B, A)), ir.Return(values=(A,)))
    ),
    _function(  # owns a
        "owner",
        (ir.Param(value=A, ownership=ir.Ownership.OWNED), ir.Param(value=B)),
        (ir.Free(storage=A), ir.CallExtern(target="aten::relu", args=(B,), result=Z), ir.Return(values=(Z,))),
    ),
    _function(
        "check", BORROWED, (ir.AssertExpr(condition=lt(S0, Int(9))), ir.Return(values=(eq(S0, Int(1)),)))
    ),
)

PROGRAM = ir.Program(
    functions=FUNCTIONS,
    symbols=(ir.SymbolDef(name="s0", lower=1, upper=64, hint=8),),
    constants=(ir.Constant(value=W),),
    externs=EXTERNS,
    kernels=(KERNEL,),
)
INDEX = Analyses(PROGRAM)

SAMPLES: tuple[ir.Op, ...] = (
    ir.AllocStorage(
        result=S, purpose=ir.AllocPurpose.WORKSPACE, zero=ir.ZeroMode.CALL, stream=1, prov=PROV
    ),
    ir.Slot(pool=S, offset=mul(S0, 4), result=PART, zero=ir.ZeroMode.CALL, stream=1, prov=PROV),
    ir.Free(storage=S, prov=PROV),
    ir.Drop(value=X, prov=PROV),
    ir.Copy(dst=X, src=Y, non_blocking=True, stream=1, prov=PROV),
    ir.EnsureAligned(source=X, result=Z, alignment=64, prov=PROV),
    ir.ResizeStorage(target=X, nbytes=mul(S0, 4), prov=PROV),
    ir.SetStorage(target=X, source=Y, prov=PROV),
    ir.View(source=S, result=Z, offset=mul(S0, 4), mode=ir.ViewMode.REUSE, prov=PROV),
    ir.Launch(
        kernel="k",
        args=(X, Y, Z, mul(S0, 8)),
        extents=(Int(32), Int(32), mul(S0, 4)),
        grid=(S0, Int(2)),
        stream=1,
        prov=PROV,
    ),
    ir.CallExtern(
        target="aten::addmm.out",
        args=(X, (Y, None, (W, S0)), "mode", ir.DType.F32, ir.CPU, ir.MemoryFormat.CONTIGUOUS),
        kwargs=(("beta", Int(2)), ("out", Z)),
        result=RESULTS,
        stream=1,
        prov=PROV,
    ),
    ir.Unpack(source=RESULTS, path=(0, "values"), result=Z, prov=PROV),
    ir.Define(symbol="s0", expr=add(ir.SizeOf(X, 0), ir.Item(Y)), prov=PROV),
    ir.AssertLayout(tensors=(X, W), sizes=((S0,), (Int(8),)), strides=((Int(1),), (Int(1),)), alignment=16, message="input", prov=PROV),
    ir.AssertExpr(condition=lt(S0, Int(9)), message="too long", prov=PROV),
    ir.AssertFinite(tensor=X, message="argument 1", prov=PROV),
    ir.Switch(index=Y, branches=("fresh", "through"), args=(X, W), results=(Z,), prov=PROV),
    ir.WhileLoop(
        cond_fn="check",
        body_fn="through",
        carried=(X,),
        captured=(Y, S0),
        results=(Z,),
        stacked=True,
        prov=PROV,
    ),
    ir.CallSubgraph(function="owner", args=(X, Y), results=(Z,), prov=PROV),
    ir.Return(values=(X, mul(S0, 2), None), prov=PROV),
    ir.RecordEvent(result=EVENT, device=CUDA, stream=1, prov=PROV),
    ir.WaitEvent(event=EVENT, device=CUDA, stream=2, prov=PROV),
    ir.SyncEvent(event=EVENT, prov=PROV),
    ir.Barrier(prov=PROV),
    ir.EnterProfile(name="attention", details="layer 3", prov=PROV),
    ir.EnterMemoryPool(name="activations", device=CUDA, prov=PROV),
    ir.ExitScope(prov=PROV),
    ir.CollectiveStart(
        target="c10d::all_reduce_coalesced",
        args=((X, Y), "sum"),
        kwargs=(("group_name", "0"),),
        results=(Z, B),
        group="0",
        stream=1,
        prov=PROV,
    ),
    ir.Wait(source=X, result=Z, prov=PROV),
    ir.Comment(text="attention", prov=PROV),
    ir.DebugValue(
        values=(X, Y), mode=ir.DebugMode.SAVE, phase=ir.DebugPhase.BEFORE, callee="k", numbers=(S0,), directory="d", label="after", prov=PROV
    ),
)  # fmt: skip
