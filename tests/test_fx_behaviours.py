"""Single behaviours of FX graphs, from short IR text: what is called, and what comes out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.py_case import HEADER, KERNELS, find_runtime
from torch import fx

import fx_converter
import wrapper_ir
from fx_converter import FxEmitter, FxOptions
from fx_converter.options import KernelCalls
from tests.compare import assert_same
from wrapper_ir.artifact import bare_artifact

FORMS: tuple[KernelCalls, ...] = ("direct", "hop")
both_forms = pytest.mark.parametrize("form", FORMS)


def graph(text: str, form: KernelCalls = "hop") -> fx.GraphModule:
    artifact = bare_artifact(wrapper_ir.parse_program(HEADER + text))
    return fx_converter.convert(artifact, FxOptions(kernel_calls=form, find_runtime=find_runtime))


def called(module: fx.GraphModule) -> list[str]:
    """Names of what is called, in order."""
    return [
        str(getattr(n.target, "__name__", n.target)) for n in module.graph.nodes if n.op == "call_function"
    ]


@both_forms
def test_elements_are_read_by_operators(form: KernelCalls) -> None:
    """A bool goes through `where`, so that it is read as a number."""
    text = "symbol u2 : int unbacked\n\nfunc @main(%i: i64[], %f: f32[], %b: bool[]) {\n"
    text += "  define u0 = item(%i)\n  define u1 = item(%f)\n  define u2 = to_int(item(%b))\n  return u0, u1, u2\n}\n"
    module = graph(text, form)
    assert called(module) == ["item.default", "item.default", "where.Scalar", "item.default"]
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


def test_mutating_overloads_take_what_their_schema_names() -> None:
    text = 'extern "aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)"\n'
    text += 'extern "aten::scatter_reduce_.two(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor(a!)"\n'
    text += "func @main(%x: f32[4], %i: i64[2], %v: f32[2]) {\n  %y = alloc f32[4]\n  copy %y, %x\n"
    text += "  call aten::index_put_(%y, [%i], %v, true)\n"
    text += '  call aten::scatter_reduce_.two(%y, 0, %i, %v, "amax", include_self=false)\n  return %y\n}\n'
    x, i, v = torch.zeros(4), torch.tensor([1, 3]), torch.tensor([2.0, 5.0])
    want = x.index_put((i,), v, True).scatter_reduce(0, i, v, "amax", include_self=False)
    assert_same(graph(text)(x, i, v), (want,))


def test_precomputed_sizes_are_shared() -> None:
    text = KERNELS + "func @main(%x: f32[s0, 4]) {\n  define s0 = size(%x, 0)\n  %a = alloc f32[s0, 4]\n"
    text += "  launch @double(%x, %a, s0*4)\n  launch @double(%a, %a, s0*4)\n  return %a, s0*4\n}\n"
    assert called(graph(text)).count("mul") == 1


def test_torch_compile_takes_an_emitter_with_options() -> None:
    """And keeps what it makes apart from what other options make."""
    torch._dynamo.reset()
    x = torch.randn(6)
    for form in FORMS:
        emitter: Any = FxEmitter(options=FxOptions(kernel_calls=form))
        compiled = torch.compile(torch.sin, backend="wrapper_ir", options={"emitter": emitter})
        assert_same(compiled(x), torch.sin(x))
    torch._dynamo.reset()
