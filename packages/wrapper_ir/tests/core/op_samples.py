"""One instance of every op with every field filled in, inside one program that declares what they refer to.

Shared by the tests of the core; `SAMPLES` is checked against the op union in `test_core_structure.py`.
"""

from __future__ import annotations

from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr, Int, Sym, add, eq, lt, mul
from wrapper_ir.ir.atoms import Item, SizeOf
from wrapper_ir.ir.kernels import Access, CppKernel, CppSource, KernelParam, ParamKind, Requirement
from wrapper_ir.ir.layout import contiguous_strides
from wrapper_ir.ir.ops import (
    AllocPurpose,
    AllocStorage,
    AssertExpr,
    AssertFinite,
    AssertLayout,
    Barrier,
    CallExtern,
    CallSubgraph,
    CollectiveStart,
    Comment,
    Copy,
    DebugMode,
    DebugPhase,
    DebugValue,
    Define,
    Drop,
    EnsureAligned,
    EnterMemoryPool,
    EnterProfile,
    ExitScope,
    Free,
    Launch,
    Op,
    Provenance,
    RecordEvent,
    ResizeStorage,
    Return,
    SetStorage,
    Slot,
    Switch,
    SyncEvent,
    Unpack,
    View,
    ViewMode,
    Wait,
    WaitEvent,
    WhileLoop,
    ZeroMode,
)
from wrapper_ir.ir.program import Constant, Function, Ownership, Param, Program, SymbolDef
from wrapper_ir.ir.schemas import ExternDef, ExternTag
from wrapper_ir.ir.types import (
    CPU,
    Device,
    DType,
    MemoryFormat,
    OpaqueKind,
    OpaqueType,
    StorageType,
    TensorType,
    TupleType,
)
from wrapper_ir.ir.values import Value

CUDA = Device("cuda", 0)
S0 = Sym("s0")
PROV = Provenance(
    nodes=("linear",),
    ops=("aten.linear.default",),
    locations=("m.py:3",),
    modules=("mlp",),
    frontend_name="buf0",
)


def tensor(
    name: str, *sizes: int | Expr, dtype: DType = DType.F32, device: Device = CPU
) -> Value[TensorType]:
    """A contiguous tensor value."""
    size = tuple(Int(s) if isinstance(s, int) else s for s in sizes)
    return Value(name, TensorType(dtype, size, contiguous_strides(size), device))


def storage(name: str, nbytes: int) -> Value[StorageType]:
    """A storage value on the CPU."""
    return Value(name, StorageType(Int(nbytes)))


S, PART = storage("s", 32), storage("part", 16)
X, Y, Z, W = tensor("x", 8), tensor("y", 8), tensor("z", 8), tensor("w", 8)
EVENT = Value("e", OpaqueType(OpaqueKind.EVENT))
RESULTS = Value("t", TupleType())


def _pointer(name: str, access: Access) -> KernelParam:
    return KernelParam(name=name, kind=ParamKind.POINTER, dtype=DType.F32, access=access)


KERNEL = CppKernel(
    name="k",
    params=(
        _pointer("in_ptr0", Access.READ),
        _pointer("out_ptr0", Access.WRITE),
        _pointer("in_out_ptr0", Access.READWRITE),
        KernelParam(name="ks0", kind=ParamKind.SCALAR, dtype=DType.I64),
    ),
    source='extern "C" void kernel(const float*, float*, float*, long) {}',
    entry="kernel",
    isa=("avx512",),
    variants=(
        CppSource(source='extern "C" void kernel(const float*, float*, float*, long) { }', isa=("avx2",)),
    ),
    requires=(Requirement(name="torch/csrc/inductor/cpp_prefix.h", origin="torch 2.13.0", sha256="0" * 64),),
)

EXTERNS = (
    ExternDef(schema="aten::relu(Tensor self) -> Tensor"),
    ExternDef(
        schema="aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, "
        "Tensor(a!) out) -> Tensor(a!)"
    ),
    ExternDef(schema="aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"),
    ExternDef(schema="aten::t(Tensor(a) self) -> Tensor(a)"),
    ExternDef(
        schema="aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", tags=(ExternTag.MAY_ALIAS,)
    ),
    ExternDef(schema="aten::topk(Tensor self, SymInt k) -> (Tensor values, Tensor indices)"),
    ExternDef(schema="aten::cat(Tensor[] tensors, int dim=0) -> Tensor"),
    ExternDef(schema="aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"),
    ExternDef(
        schema="aten::rand(SymInt[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
        tags=(ExternTag.RANDOM,),
    ),
    ExternDef(schema="aten::warn(str message) -> ()", tags=(ExternTag.HOST_IO, ExternTag.EFFECTFUL)),
    ExternDef(
        schema="c10d::all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]"
    ),
    ExternDef(schema="lib::variadic(...) -> Tensor"),
)


def _function(name: str, params: tuple[Param, ...], body: tuple[Op, ...]) -> Function:
    return Function(name=name, params=params, body=body, captures=("s0",))


A, B = tensor("a", 8), tensor("b", 8)
BORROWED = (Param(value=A), Param(value=B))
FUNCTIONS = (
    _function("main", (Param(value=X), Param(value=Y)), (Return(values=()),)),
    _function(  # reads a, makes its result
        "fresh",
        BORROWED,
        (CallExtern(target="aten::relu", args=(A,), result=Z), Return(values=(Z,))),
    ),
    _function(  # writes b, returns a
        "through",
        BORROWED,
        (CallExtern(target="aten::add_.Tensor", args=(B, A)), Return(values=(A,))),
    ),
    _function(  # owns a
        "owner",
        (Param(value=A, ownership=Ownership.OWNED), Param(value=B)),
        (Free(storage=A), CallExtern(target="aten::relu", args=(B,), result=Z), Return(values=(Z,))),
    ),
    _function("check", BORROWED, (AssertExpr(condition=lt(S0, Int(9))), Return(values=(eq(S0, Int(1)),)))),
)

PROGRAM = Program(
    functions=FUNCTIONS,
    symbols=(SymbolDef(name="s0", lower=1, upper=64, hint=8),),
    constants=(Constant(value=W),),
    externs=EXTERNS,
    kernels=(KERNEL,),
)
INDEX = Analyses(PROGRAM)

SAMPLES: tuple[Op, ...] = (
    AllocStorage(
        result=S, purpose=AllocPurpose.WORKSPACE, zero=ZeroMode.CALL, stream=1, prov=PROV
    ),
    Slot(pool=S, offset=mul(S0, 4), result=PART, zero=ZeroMode.CALL, stream=1, prov=PROV),
    Free(storage=S, prov=PROV),
    Drop(value=X, prov=PROV),
    Copy(dst=X, src=Y, non_blocking=True, stream=1, prov=PROV),
    EnsureAligned(source=X, result=Z, alignment=64, prov=PROV),
    ResizeStorage(target=X, nbytes=mul(S0, 4), prov=PROV),
    SetStorage(target=X, source=Y, prov=PROV),
    View(source=S, result=Z, offset=mul(S0, 4), mode=ViewMode.REUSE, prov=PROV),
    Launch(
        kernel="k",
        args=(X, Y, Z, mul(S0, 8)),
        extents=(Int(32), Int(32), mul(S0, 4)),
        grid=(S0, Int(2)),
        stream=1,
        prov=PROV,
    ),
    CallExtern(
        target="aten::addmm.out",
        args=(X, (Y, None, (W, S0)), "mode", DType.F32, CPU, MemoryFormat.CONTIGUOUS),
        kwargs=(("beta", Int(2)), ("out", Z)),
        result=RESULTS,
        stream=1,
        prov=PROV,
    ),
    Unpack(source=RESULTS, path=(0, "values"), result=Z, prov=PROV),
    Define(symbol="s0", expr=add(SizeOf(X, 0), Item(Y)), prov=PROV),
    AssertLayout(tensors=(X, W), sizes=((S0,), (Int(8),)), strides=((Int(1),), (Int(1),)), alignment=16, message="input", prov=PROV),
    AssertExpr(condition=lt(S0, Int(9)), message="too long", prov=PROV),
    AssertFinite(tensor=X, message="argument 1", prov=PROV),
    Switch(index=Y, branches=("fresh", "through"), args=(X, W), results=(Z,), prov=PROV),
    WhileLoop(
        cond_fn="check",
        body_fn="through",
        carried=(X,),
        captured=(Y, S0),
        results=(Z,),
        stacked=True,
        prov=PROV,
    ),
    CallSubgraph(function="owner", args=(X, Y), results=(Z,), prov=PROV),
    Return(values=(X, mul(S0, 2), None), prov=PROV),
    RecordEvent(result=EVENT, device=CUDA, stream=1, prov=PROV),
    WaitEvent(event=EVENT, device=CUDA, stream=2, prov=PROV),
    SyncEvent(event=EVENT, prov=PROV),
    Barrier(prov=PROV),
    EnterProfile(name="attention", details="layer 3", prov=PROV),
    EnterMemoryPool(name="activations", device=CUDA, prov=PROV),
    ExitScope(prov=PROV),
    CollectiveStart(
        target="c10d::all_reduce_coalesced",
        args=((X, Y), "sum"),
        kwargs=(("group_name", "0"),),
        results=(Z, B),
        group="0",
        stream=1,
        prov=PROV,
    ),
    Wait(source=X, result=Z, prov=PROV),
    Comment(text="attention", prov=PROV),
    DebugValue(
        values=(X, Y), mode=DebugMode.SAVE, phase=DebugPhase.BEFORE, callee="k", numbers=(S0,), directory="d", label="after", prov=PROV
    ),
)  # fmt: skip
