"""Arguments and results of operators in FX graphs: structured arguments, nested results, numbers at key
paths.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

import fx_converter
import inductor_frontend
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from inductor_frontend import CaptureOptions, PaddingOptions
from tests.common.compare import assert_same
from tests.common.forms import FORMS, both_forms
from tests.fx.fx_graph import called, graph


@contextmanager
def operators(schema: str, **functions: Callable[..., Any]) -> Iterator[None]:
    """Operators of the namespace `wrapper_ir_fx_tests` that exist for a while."""
    library: Any = torch.library.Library("wrapper_ir_fx_tests", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch leaves it so
    library.define(schema)
    for name, function in functions.items():
        library.impl(name, function, "CompositeExplicitAutograd")
    try:
        yield
    finally:
        library._destroy()


def test_mutating_overloads_take_what_their_schema_names() -> None:
    text = 'extern "aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)"\n'
    text += 'extern "aten::scatter_reduce_.two(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor(a!)"\n'
    text += "func @main(%x: f32[4], %i: i64[2], %v: f32[2]) {\n  %y = alloc f32[4]\n  copy %y, %x\n"
    text += "  call aten::index_put_(%y, [%i], %v, true)\n"
    text += '  call aten::scatter_reduce_.two(%y, 0, %i, %v, "amax", include_self=false)\n  return %y\n}\n'
    x, i, v = torch.zeros(4), torch.tensor([1, 3]), torch.tensor([2.0, 5.0])
    want = x.index_put((i,), v, True).scatter_reduce(0, i, v, "amax", include_self=False)
    assert_same(graph(text)(x, i, v), (want,))


@both_forms
def test_nested_results_are_taken_apart(form: KernelCalls) -> None:
    """A tensor of a list of the results, and a number."""
    with operators("parts(Tensor x) -> (Tensor, Tensor[], int)", parts=lambda x: (x + 1, [x * 2, x * 3], 5)):
        text = 'extern "wrapper_ir_fx_tests::parts(Tensor x) -> (Tensor, Tensor[], int)"\nfunc @main(%x: f32[3]) {\n'
        text += "  %r = call wrapper_ir_fx_tests::parts(%x) : results\n  %a = unpack %r[0] : f32[3]\n"
        text += (
            "  %b = unpack %r[1][1] : f32[3]\n  %n = unpack %r[2] : int\n  define s0 = item(%n)\n  drop %r\n"
        )
        text += "  return %a, %b, s0\n}\n"
        module = graph(text, form)
        x = torch.randn(3)
        assert_same(module(x), (x + 1, x * 3, 5))
    (made,) = (n for n in module.graph.nodes if n.name == "r")
    assert [type(v).__name__ for v in made.meta["val"]] == ["FakeTensor", "list", "SymInt"]


@both_forms
def test_arguments_of_every_sort(form: KernelCalls) -> None:
    """In structure: lists of lists of nothing and numbers, strings, types, devices, complex and symbolic
    numbers.
    """
    seen: list[Any] = []

    def take(x: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append((args, kwargs))
        return x + 1

    schema = "take(Tensor x, Tensor?[] ts, SymInt[] sizes, Scalar s, str w, *, ScalarType? dtype=None, Device? device=None, bool flag=False, float[]? fs=None) -> Tensor"
    with operators(schema, take=take):
        text = (
            f'extern "wrapper_ir_fx_tests::{schema}"\nfunc @main(%x: f32[s0]) {{\n  define s0 = size(%x, 0)\n'
        )
        text += (
            '  %y = call wrapper_ir_fx_tests::take(%x, [none, %x], [s0*2, 3], complex(1.0, -2.0), "word", '
        )
        text += "dtype=f16, device=device(cpu), flag=true, fs=[0.5, inf]) : f32[s0]\n  return %y\n}\n"
        x = torch.randn(4)
        assert_same(graph(text, form)(x), (x + 1,))
    (((ts, sizes, s, w), kwargs),) = seen
    assert ts[0] is None
    assert torch.equal(ts[1], x)
    assert (list(sizes), s, w) == ([8, 3], 1 - 2j, "word")
    cpu = torch.device("cpu")
    assert kwargs == {"dtype": torch.float16, "device": cpu, "flag": True, "fs": [0.5, math.inf]}


def test_sizes_behind_a_key_path_are_captured_and_read() -> None:
    """A size that is twice a symbol, and a bool that is wanted as a number."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[x > 0]] * 2)

    def fake(x: torch.Tensor) -> torch.Tensor:
        return x.new_empty(2 * torch.library.get_ctx().new_dynamic_size())

    def model(x: torch.Tensor, b: torch.Tensor, f: torch.Tensor) -> Any:
        pairs = torch.ops.wrapper_ir_fx_tests.doubled(x)
        return pairs.view(2, -1) * f.item(), torch.full((2,), b.item())

    with operators("doubled(Tensor x) -> Tensor", doubled=doubled):
        torch.library.register_fake("wrapper_ir_fx_tests::doubled", fake)
        args = (torch.randn(9), torch.tensor(True), torch.tensor(0.5))
        artifact = inductor_frontend.capture(model, args)
        text = wrapper_ir.print_program(artifact.program)
        assert re.search(r"define u0 = size\(%buf\d, 0\)//2", text)
        assert "define u1 = where(item(%b), 1, 0)" in text
        for form in FORMS:
            module = fx_converter.convert(artifact, FxOptions(kernel_calls=form))
            assert {"floordiv", "where.Scalar", "item.default"} <= set(called(module))
            assert not {"ne", "choose"} & set(called(module))
            for b in (True, False):
                x, f = torch.randn(9), torch.tensor(1.5)
                assert_same(module(x, torch.tensor(b), f), model(x, torch.tensor(b), f))


@both_forms
def test_captured_padding_of_dynamic_sizes(form: KernelCalls) -> None:
    """Strides of results too are rounded up in the graph's own arithmetic."""
    padding = PaddingOptions(
        disable_padding_cpu=False, pad_dynamic_shapes=True, pad_outputs=True, padding_alignment_bytes=64
    )
    rows, columns = torch.export.Dim("rows", min=2, max=500), torch.export.Dim("columns", min=2, max=500)
    artifact = inductor_frontend.capture(
        lambda x: torch.softmax(x, 1) + 1,
        (torch.randn(12, 34),),
        dynamic_shapes=({0: rows, 1: columns},),
        options=CaptureOptions(padding=padding),
    )
    module = fx_converter.convert(artifact, FxOptions(kernel_calls=form))
    assert not {"floor", "ceil", "pow", "truediv", "sym_int"} & set(called(module))
    for sizes in ((12, 34), (5, 100), (7, 33)):
        x = torch.randn(sizes)
        got = module(x)
        assert got.stride(0) % 16 == 0
        torch.testing.assert_close(got, torch.softmax(x, 1) + 1)
