"""The builder: names, declarations, the op sequences of its methods, and refusals."""

from __future__ import annotations

import dataclasses

import pytest
from packages.wrapper_ir.tests.core.op_samples import KERNEL, PROV, W

from wrapper_ir import ir
from wrapper_ir.builder import FunctionBuilder, ProgramBuilder, tensor_type
from wrapper_ir.errors import BuildError
from wrapper_ir.expr import Int, Sym, mul

F8 = tensor_type(ir.DType.F32, [8])
RELU = ir.ExternDef(schema="aten::relu(Tensor self) -> Tensor")
TOPK = ir.ExternDef(schema="aten::topk(Tensor self, SymInt k) -> (Tensor values, Tensor indices)")


def started() -> tuple[ProgramBuilder, FunctionBuilder]:
    program = ProgramBuilder()
    return program, program.function("main")


def test_tensor_types() -> None:
    s0 = Sym("s0")
    assert tensor_type(ir.DType.F32, [s0, 4]) == ir.TensorType(
        ir.DType.F32, (s0, Int(4)), (Int(4), Int(1)), ir.CPU
    )
    strided = tensor_type(ir.DType.U8, [4, 4], [1, s0], ir.Device("cuda", 1))
    assert strided == ir.TensorType(ir.DType.U8, (Int(4), Int(4)), (Int(1), s0), ir.Device("cuda", 1))


def test_names_are_unique_in_the_function_and_apart_from_constants() -> None:
    program, f = started()
    program.constant(ir.Constant(value=W))
    names = [f.param("x", F8).name, f.value("x", F8).name, f.value("x_1", F8).name, f.value("x", F8).name]
    assert names == ["x", "x_1", "x_1_1", "x_2"]
    assert f.value("w", F8).name == "w_1"
    assert program.function("other").param("x", F8).name == "x"


def test_a_functions_prefix_is_left_out_of_its_names() -> None:
    program, _ = started()
    f = program.function("f", "f_")
    assert [f.param("f_x", F8).name, f.value("g_x", F8).name, f.value("f_", F8).name] == ["x", "g_x", "f_"]


def test_functions_have_names_of_their_own() -> None:
    program, _ = started()
    assert program.fresh_function_name("f") == "f"
    assert program.fresh_function_name("main") == "main_1"
    program.function("main_1")
    assert program.fresh_function_name("main") == "main_2"


def test_a_draft_has_the_functions_that_are_done() -> None:
    program, main = started()
    program.function("f").ret(())
    assert [f.name for f in program.draft().functions] == ["f"]
    main.ret(())
    assert [f.name for f in program.draft().functions] == ["main", "f"]
    assert program.draft() == program.finish()


def test_alloc_is_a_storage_and_a_view_of_it() -> None:
    _, f = started()
    y = f.alloc("y", tensor_type(ir.DType.F32, [Sym("s0"), 4]))
    alloc, view = f.ops
    assert isinstance(alloc, ir.AllocStorage)
    assert alloc.result.name == "y.s"
    assert alloc.result.type == ir.StorageType(mul(16, Sym("s0")))
    assert view == ir.View(source=alloc.result, result=y)
    f.alloc("z", F8, nbytes=64)
    assert ir.results(f.ops[2])[0].type == ir.StorageType(Int(64))


def test_alloc_follows_the_device_of_its_type() -> None:
    _, f = started()
    f.alloc("y", tensor_type(ir.DType.F32, [8], device=ir.Device("cuda", 0)))
    assert ir.results(f.ops[0])[0].type == ir.StorageType(Int(32), ir.Device("cuda", 0))


def test_alloc_storage_takes_all_its_options() -> None:
    _, f = started()
    pinned = ir.MemorySpace(kind=ir.MemoryKind.PINNED)
    s = f.alloc_storage(
        "ws", 64, space=pinned, purpose=ir.AllocPurpose.WORKSPACE, zero=ir.ZeroMode.ONCE, stream=2
    )
    assert s.type == ir.StorageType(Int(64), ir.CPU, pinned)
    assert f.ops == [
        ir.AllocStorage(result=s, purpose=ir.AllocPurpose.WORKSPACE, zero=ir.ZeroMode.ONCE, stream=2)
    ]


def test_each_method_appends_its_op() -> None:
    program, f = started()
    x = f.param("x", F8)
    v = f.view("v", x, tensor_type(ir.DType.F32, [4]), offset=16, mode=ir.ViewMode.REUSE)
    f.launch(KERNEL, (x, v), grid=(2,), extents=(32, 16), stream=1)
    assert f.call(RELU, (x,)) is None
    t = f.call(TOPK, (x, Int(5)), name="t", type=ir.TupleType())
    assert t is not None
    y = f.unpack("y", t, (0,), F8)
    f.define("s0", ir.SizeOf(x, 0))
    f.ret((y,))
    assert f.ops == [
        ir.View(source=x, result=v, offset=Int(16), mode=ir.ViewMode.REUSE),
        ir.Launch(kernel="k", args=(x, v), grid=(Int(2),), extents=(Int(32), Int(16)), stream=1),
        ir.CallExtern(target="aten::relu", args=(x,)),
        ir.CallExtern(target="aten::topk", args=(x, Int(5)), result=t),
        ir.Unpack(source=t, path=(0,), result=y),
        ir.Define(symbol="s0", expr=ir.SizeOf(x, 0)),
        ir.Return(values=(y,)),
    ]
    built = program.finish()
    assert built.kernels == (KERNEL,)
    assert built.externs == (RELU, TOPK)


def test_provenance_is_given_to_the_ops_that_follow() -> None:
    _, f = started()
    x = f.param("x", F8)
    f.prov = PROV
    f.alloc("y", F8)
    f.prov = ir.UNKNOWN
    f.ret((x,))
    assert [op.prov for op in f.ops] == [PROV, PROV, ir.UNKNOWN]


def test_a_whole_program() -> None:
    target = ir.Target(device=ir.Device("cuda", 0), arch="sm_90")
    program = ProgramBuilder(target)
    s0 = program.symbol(ir.SymbolDef(name="s0", lower=1))
    w = program.constant(ir.Constant(value=W))
    main, sub = program.function("main"), program.function("sub")
    x = main.param("x", F8, ir.Ownership.OWNED)
    main.ret((x, w))
    sub.capture("s0")
    sub.capture("s0")
    sub.ret(())
    built = program.finish()
    assert built.target == target
    assert built.symbols == (s0,)
    assert built.constants == (ir.Constant(value=W),)
    assert [f.name for f in built.functions] == ["main", "sub"]
    assert built.main.params == (ir.Param(value=x, ownership=ir.Ownership.OWNED),)
    assert built.functions[1].captures == ("s0",)


def test_declaring_again_is_fine_when_nothing_differs() -> None:
    program, f = started()
    for _ in range(2):
        program.symbol(ir.SymbolDef(name="s0"))
        program.constant(ir.Constant(value=W))
        program.extern(RELU)
        program.kernel(KERNEL)
    f.ret(())
    built = program.finish()
    assert (len(built.symbols), len(built.constants), len(built.externs), len(built.kernels)) == (1, 1, 1, 1)


def test_two_definitions_of_one_name_are_refused() -> None:
    program, _ = started()
    program.symbol(ir.SymbolDef(name="s0"))
    program.constant(ir.Constant(value=W))
    program.extern(RELU)
    program.kernel(KERNEL)
    for again in (
        lambda: program.symbol(ir.SymbolDef(name="s0", hint=3)),
        lambda: program.constant(ir.Constant(value=W, mutable=True)),
        lambda: program.extern(ir.ExternDef(schema="aten::relu(Tensor(a) self) -> Tensor(a)")),
        lambda: program.kernel(dataclasses.replace(KERNEL, entry="other")),
        lambda: program.function("main"),
    ):
        with pytest.raises(BuildError) as caught:
            again()
        assert caught.value.code == "WIR306"


def test_a_function_must_return() -> None:
    program, f = started()
    f.param("x", F8)
    with pytest.raises(BuildError) as caught:
        program.finish()
    assert caught.value.code == "WIR301"
