"""Single behaviours of FX graphs, from short IR text: calls and results."""

from __future__ import annotations

import math
import weakref
from typing import Any

import pytest
import sympy
import torch
from packages.py_wrapper.tests.py_case import HEADER, KERNELS, RELU, find_runtime
from torch import fx

import fx_converter
import wrapper_ir
from fx_converter import FxEmitter, FxOptions
from fx_converter.kernels import KernelCalls
from tests.common.compare import assert_same
from tests.common.forms import FORMS, both_forms
from tests.fx.fx_graph import called, graph
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import ExecutionError


@both_forms
def test_elements_are_read_by_operators(form: KernelCalls) -> None:
    """A bool passes through `where`, so that it is read as a number."""
    text = "symbol u2 : int unbacked\n\nfunc @main(%i: i64[], %f: f32[], %b: bool[]) {\n"
    text += "  define u0 = item(%i)\n  define u1 = item(%f)\n  define u2 = to_int(item(%b))\n  return u0, u1, u2\n}\n"
    module = graph(text, form)
    assert called(module) == [
        "check_storages",
        "item.default",
        "item.default",
        "where.Scalar",
        "item.default",
    ]
    assert module(torch.tensor(7), torch.tensor(0.5), torch.tensor(True)) == (7, 0.5, 1)
    by_name = {n.name: str(n.meta["val"]) for n in module.graph.nodes}
    assert by_name["u0"] == "u0"


@both_forms
def test_a_size_is_solved_for_its_symbol(form: KernelCalls) -> None:
    module = graph(
        "func @main(%x: f32[2*s0]) {\n  define s0 = size(%x, 0) // 2\n  %y = alloc f32[s0]\n  return s0\n}\n",
        form,
    )
    assert called(module)[:2] == ["sym_size.int", "floordiv"]
    assert module(torch.zeros(14)) == (7,)


@both_forms
def test_strides_are_dynamic(form: KernelCalls) -> None:
    text = "func @main(%x: f32[4, 3]{s0, 1}) {\n  define s0 = stride(%x, 0)\n"
    text += (
        "  %v = view %x + s0*4 : f32[3, 3]{s0, 1}\n  %y = alloc f32[3, 3]\n  copy %y, %v\n  return %y\n}\n"
    )
    x = torch.arange(40.0).as_strided((4, 3), (7, 1), 2)
    assert_same(graph(text, form)(x), (x[1:].contiguous(),))


@both_forms
def test_a_window_counts_from_the_first_element_of_its_source(form: KernelCalls) -> None:
    """Not from the start of the storage, wherever the caller's tensor begins."""
    text = "func @main(%x: f32[8]) {\n  %v = view %x + 8 : f32[2, 2]{2, 1}\n  %w = view %v + 4 : f32[3]\n"
    text += "  %y = alloc f32[3]\n  copy %y, %w\n  return %y\n}\n"
    x = torch.arange(20.0)[5:13]
    assert_same(graph(text, form)(x), (torch.tensor([8.0, 9.0, 10.0]),))


@both_forms
def test_a_workspace_is_zeroed_in_each_call(form: KernelCalls) -> None:
    text = KERNELS + "func @main() {\n  %s = alloc_storage 16 workspace zero(call)\n  %w = view %s : f32[4]\n"
    text += "  launch @increment(%w)\n  %y = alloc f32[4]\n  copy %y, %w\n  free %s\n  return %y\n}\n"
    module = graph(text, form)
    assert "zero_.default" in called(module)
    for _ in range(2):
        assert_same(module(), (torch.ones(4),))


def test_precomputed_sizes_are_shared() -> None:
    text = KERNELS + "func @main(%x: f32[s0, 4]) {\n  define s0 = size(%x, 0)\n  %a = alloc f32[s0, 4]\n"
    text += "  launch @double(%x, %a, s0*4)\n  launch @double(%a, %a, s0*4)\n  return %a, s0*4\n}\n"
    assert called(graph(text)).count("mul") == 1


def test_torch_compile_takes_an_emitter_with_options() -> None:
    """Its compiled code is kept separate from that with other options."""
    torch._dynamo.reset()
    x = torch.randn(6)
    for form in FORMS:
        emitter: Any = FxEmitter(options=FxOptions(kernel_calls=form))
        compiled = torch.compile(torch.sin, backend="wrapper_ir", options={"emitter": emitter})
        assert_same(compiled(x), torch.sin(x))
    torch._dynamo.reset()


# --- storage


def kinds(module: fx.GraphModule) -> list[str]:
    """As `called`, with the node's own name."""
    nodes = (n for n in module.graph.nodes if n.op == "call_function" and n.name != "check_inputs")
    return [f"{n.name}: {getattr(n.target, '__name__', n.target)}" for n in nodes]


REUSED = (
    KERNELS
    + """func @main(%x: f32[4, 2]) {
  %a = alloc f32[4, 2]
  launch @double(%x, %a, 8)
  %b = reuse %a : f32[8]
  launch @increment(%b)
  %c = alloc f32[2]
  %v = view %b + 8 : f32[2]
  copy %c, %v
  free %a.s
  return %c
}
"""
)


@both_forms
def test_allocation_reuse_and_free_are_nodes(form: KernelCalls) -> None:
    module = graph(REUSED, form)
    empty, view = {
        "direct": ("_empty_strided_cpu", "_reinterpret_tensor"),
        "hop": ("empty_strided.default", "as_strided.default"),
    }[form]
    calls = [line for line in kinds(module) if "double" not in line and "increment" not in line]
    calls = [line for line in calls if "wrapper_ir" not in line and "foreign" not in line]
    assert calls == [
        "check_storages: check_storages",
        f"a: {empty}",
        f"b: {view}",
        f"c: {empty}",
        f"v: {view}",
        "copy__default: copy_.default",
        "free: free",
    ]
    (free,) = (n for n in module.graph.nodes if n.name == "free")
    assert [a.name for a in free.args] == ["a"]
    x = torch.randn(4, 2)
    assert_same(module(x), ((x.flatten() * 2 + 1)[2:4],))


@both_forms
@pytest.mark.parametrize("boxed", [False, True])
def test_a_graph_keeps_nothing_alive(form: KernelCalls, boxed: bool) -> None:
    """Neither its results, nor its inputs, nor its allocations."""
    artifact = bare_artifact(wrapper_ir.parse_program(HEADER + REUSED))
    options = FxOptions(kernel_calls=form, find_runtime=find_runtime)
    run = (fx_converter.compile if boxed else fx_converter.convert)(artifact, options)
    x = torch.randn(4, 2)
    (result,) = run(x)
    held = [weakref.ref(t) for t in (x, result)]
    del x, result
    assert [r() for r in held] == [None, None]


@both_forms
def test_results_that_are_views(form: KernelCalls) -> None:
    """Views of an input, of an allocation of the graph, and of each other: with separate offsets, over the
    same storage.
    """
    text = (
        KERNELS
        + "func @main(%x: f32[4, 2], %n: f32[8]) {\n  %v = view %x + 8 : f32[2]{3}\n  %a = alloc f32[4, 2]\n"
    )
    text += "  launch @double(%x, %a, 8)\n  %b = view %a + 4 : f32[2, 2]{1, 3}\n  %w = view %n : f32[2, 4]\n"
    text += "  return %v, %a, %b, %w\n}\n"
    x, n = torch.randn(4, 2), torch.randn(10)[2:]
    v, a, b, w = graph(text, form)(x, n)
    assert_same((v, w), (x.as_strided((2,), (3,), 2), n.view(2, 4)))
    assert_same((a, b), (x * 2, (x * 2).as_strided((2, 2), (1, 3), 1)))
    for view, base in ((v, x), (b, a), (w, n)):
        assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()


@both_forms
def test_padded_strides_of_dynamic_sizes(form: KernelCalls) -> None:
    """Rows begin at multiples of 8 elements, for any length."""
    pitch = "8*ceildiv(s1, 8)"
    text = KERNELS + "func @main(%x: f32[s0, s1]) {\n  define s0 = size(%x, 0)\n  define s1 = size(%x, 1)\n"
    text += (
        f"  %a = alloc f32[s0, s1]{{{pitch}, 1}}\n  copy %a, %x\n  launch @increment(%a)\n  return %a\n}}\n"
    )
    module = graph(text, form)
    (a,) = (n for n in module.graph.nodes if n.name == "a")
    assert str(a.meta["val"].stride()) == "(8*(((s1 + 7)//8)), 1)"
    for columns in (5, 8, 13):
        x = torch.randn(3, columns)
        (got,) = module(x)
        assert got.stride() == (-(-columns // 8) * 8, 1)
        assert_same(got, x + 1)


# --- numbers


def test_grids_are_whole_arithmetic() -> None:
    """No text and no floats: neither in a call nor in a value's expression."""
    text = (
        KERNELS
        + """kernel foreign @tiled runtime "pytest-kernels" (read f32* source, write f32* target, i64 count) {{{
double
}}}
func @main(%x: f32[s0, s1]) {
  define s0 = size(%x, 0)
  define s1 = size(%x, 1)
  %y = alloc f32[s0, s1]
  launch @tiled(%x, %y, max(1, ceildiv(s0*s1, 2)) * 2 - s0*s1 % 2)
  return %y, (s0**2 + s1) // 3, ceildiv(s0 + 1, 4) % 5, s0 * s1**3, min(s0, s1) // -2
}
"""
    )
    module = graph(text)
    x = torch.randn(5, 3)
    assert module(x)[1:] == ((25 + 3) // 3, 2 % 5, 5 * 27, 3 // -2)
    numbers = [n for n in module.graph.nodes if isinstance(n.meta["val"], torch.SymInt)]
    assert len(numbers) > 10
    assert not {"floor", "pow", "truediv", "sym_int", "sym_float"} & set(called(module))
    for node in numbers:
        assert not any(isinstance(arg, str | float) for arg in node.args)
        assert not node.meta["val"].node.expr.atoms(sympy.Float, sympy.Rational) - node.meta[
            "val"
        ].node.expr.atoms(sympy.Integer)
        assert not node.meta["val"].node.expr.has(sympy.floor)


# --- checks


@both_forms
def test_alignment_is_checked_by_a_node(form: KernelCalls) -> None:
    text = 'func @main(%x: f32[4]) {\n  assert_layout %x [4] [1] align(16) "input"\n  return 1\n}\n'
    module = graph(text, form)
    (node,) = (n for n in module.graph.nodes if n.op == "call_function" and n.name != "check_inputs")
    assert node.args[1:] == (16, "%x, input")
    whole = torch.randn(9)
    assert module(whole[:4]) == (1,)
    with pytest.raises(ExecutionError, match=r"WIR921.*16 bytes"):
        module(whole[1:5])


@both_forms
def test_every_check_is_left_out(form: KernelCalls) -> None:
    """Layouts, alignment, conditions, finiteness: nothing of them is computed.

    Storages of inputs are checked all the same.
    """
    text = 'func @main(%x: f32[s0]) {\n  define s0 = size(%x, 0)\n  assert_layout %x [s0] [1] align(16) "input"\n'
    text += '  assert s0 * 3 <= 30 "small"\n  assert_finite %x "input"\n  %y = alloc f32[s0]\n  copy %y, %x\n  return %y\n}\n'
    artifact = bare_artifact(wrapper_ir.parse_program(HEADER + text))
    lean = fx_converter.convert(artifact, FxOptions(kernel_calls=form, assertions=False))
    assert len(called(lean)) == 4
    x = torch.full((17,), math.inf)[1:]
    assert_same(lean(x), (x,))
    for error, bad in (("WIR921", x[:4]), ("WIR920", x.repeat(2)), ("WIR922", x.clone()[:4])):
        with pytest.raises(ExecutionError, match=error):
            graph(text, form)(bad)


@both_forms
def test_conditions_between_constants_and_symbols(form: KernelCalls) -> None:
    """Also for values known only at run time, and for operators without a symbolic function in torch."""
    text = "func @main(%x: f32[s0], %f: f32[]) {\n  define s0 = size(%x, 0)\n  define u1 = item(%f)\n"
    text += "  return where(s0 > 4, s0, 7), where(u1 > 0.0, 2.5, u1), exp(u1) + 1.0\n}\n"
    module = graph(text, form)
    by_name = {n.name: n for n in module.graph.nodes}
    assert str(by_name["choose"].meta["val"]) == "Piecewise((s0, s0 > 4), (7, True))"
    assert isinstance(by_name["exp"].meta["val"], torch.SymFloat)
    assert module(torch.zeros(6), torch.tensor(-1.0)) == (6, -1.0, math.exp(-1.0) + 1.0)
    assert module(torch.zeros(3), torch.tensor(1.0)) == (7, 2.5, math.exp(1.0) + 1.0)


@both_forms
def test_names_of_any_characters(form: KernelCalls) -> None:
    text = (
        RELU
        + 'func @main(%"x\\n": f32[3]) {\n  %"a²\\n" = call_subgraph @"f²\\n"(%"x\\n") : f32[3]\n  return %"a²\\n"\n}\n'
    )
    text += 'func @"f²\\n"(%x: f32[3]) {\n  %y = call aten::relu(%x) : f32[3]\n  return %y\n}\n'
    x = torch.randn(3)
    assert_same(graph(text, form)(x), (x.relu(),))
