"""Products that are fused with collectives give what the collectives gave, through every engine; `test_parallel.py` does the same with
several processes, `test_fused_products_gpu.py` with torch's own operators."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import py_wrapper
from cpp_wrapper import emit as emit_cpp
from cpp_wrapper.errors import EmitError
from tests.collectives.collective_cases import lonely_group
from tests.collectives.fused_cases import (
    DECLARATIONS,
    engines,
    fused,
    operators_of_cpu,
    program,
)
from wrapper_ir import parse_program
from wrapper_ir.interp import Interpreter


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """This process is all of group 0, and has the fused operators."""
    with lonely_group(tmp_path_factory.mktemp("group")), operators_of_cpu():
        yield


@pytest.mark.parametrize("engine", engines())
@pytest.mark.usefixtures("alone")
def test_one_process(engine: str) -> None:
    torch.manual_seed(0)
    args = torch.randn(4, 2, 8), torch.randn(16, 8), torch.randn(8, 16), torch.randn(16, 8)
    usual, other = fused(program(1))
    targets = {e.name.rpartition("::")[2] for e in other.program.externs}
    assert targets >= {"fused_all_gather_matmul", "fused_matmul_reduce_scatter"}
    want = Interpreter(usual, py_wrapper.TORCH_MACHINE)(*args)
    torch.testing.assert_close(tuple(engines()[engine](other)(*args)), tuple(want))


def test_cpp_has_none() -> None:
    """They exist in torch's Python code only."""
    _, other = fused(program(1))
    with pytest.raises(EmitError, match="CPP502"):
        emit_cpp(other)


class _Body:
    """A random function over matrices of 8 by 8, as text: products, collectives, changes in place, other names."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.lines = draw, list[str]()
        self.roots = {name: name for name in ("x", "y", "z")}
        self.lent: set[str] = set()
        self.pending: dict[str, str] = {}

    def pick(self, *without: str) -> str:
        """A tensor that shares no memory with these."""
        return self.draw(st.sampled_from([n for n, root in self.roots.items() if root not in without]))

    def new(self, text: str, root: str = "") -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"  %{name} = {text}")
        self.roots[name] = root or name
        return name

    def add(self) -> None:
        kinds = ("product", "product", "out", "relu", "change", "name", "gather", "scatter", "wait")
        kind, a, b = self.draw(st.sampled_from(kinds)), self.pick(), self.pick()
        free = [n for n, root in self.roots.items() if root not in self.lent]
        if kind == "product":
            self.new(f"call aten::mm(%{a}, %{b}) : f32[8, 8]")
        elif kind == "out":
            others = {self.roots[a], self.roots[b], *self.lent}
            allocated = [
                n for n, root in self.roots.items() if n == root and n.startswith("t") and n not in others
            ]
            out = self.draw(st.sampled_from([*allocated, ""])) or self.new("alloc f32[8, 8]")
            self.lines.append(f"  call aten::mm.out(%{a}, %{b}, out=%{out})")
        elif kind == "relu":
            self.new(f"call aten::relu(%{a}) : f32[8, 8]")
        elif kind == "change" and free:
            self.lines.append(f"  call aten::relu_(%{self.draw(st.sampled_from(free))})")
        elif kind == "name":
            self.new(f"view %{a} : f32[8, 8]", self.roots[a])
        elif kind == "gather":
            self.start(kind, a)
        elif kind == "scatter":
            product = self.new(f"call aten::mm(%{a}, %{b}) : f32[8, 8]")
            self.start(kind, product)
            if self.draw(st.booleans()):
                del self.roots[product]  # nothing else uses it
        elif self.pending:
            left = self.wait(self.draw(st.sampled_from(sorted(self.pending))))
            self.new(f"call aten::mm(%{left}, %{b}) : f32[8, 8]")

    def start(self, kind: str, a: str) -> None:
        call = (
            f'all_gather_into_tensor(%{a}, 1, "0")'
            if kind == "gather"
            else f'reduce_scatter_tensor(%{a}, "sum", 1, "0")'
        )
        name = self.new(f'collective _c10d_functional::{call} group("0") : f32[8, 8]')
        del self.roots[name]
        self.pending[name] = self.roots[a]
        self.lent.add(self.roots[a])

    def wait(self, name: str) -> str:
        lent = self.pending.pop(name)
        if lent not in self.pending.values():
            self.lent.discard(lent)
        return self.new(f"wait %{name} : f32[8, 8]")

    def text(self) -> str:
        while self.pending:
            self.wait(next(iter(self.pending)))
        made = [name for name, root in self.roots.items() if name == root and name.startswith("t")]
        results = ", ".join(f"%{name}" for name in made[-4:])
        body = "\n".join([*self.lines, f"  return {results}" if results else "  return"])
        return f"wir 0.3\ntarget cuda:0\n\n{DECLARATIONS}\nfunc @main(%x: f32[8, 8], %y: f32[8, 8], %z: f32[8, 8]) {{\n{body}\n}}\n"


@st.composite
def _texts(draw: st.DrawFn) -> str:
    body = _Body(draw)
    for _ in range(draw(st.integers(2, 14))):
        body.add()
    return body.text()


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(text=_texts())
@pytest.mark.usefixtures("alone")
def test_random_programs(text: str) -> None:
    """Results and arguments are those of the program as it was, whatever is changed in place between."""
    torch.manual_seed(0)
    found = []
    args = [torch.randn(8, 8) / 3 for _ in range(3)]
    for artifact in fused(parse_program(text)):
        given = [x.clone() for x in args]
        made = Interpreter(artifact, py_wrapper.TORCH_MACHINE)(*given)
        found.append((*made, *given))
    torch.testing.assert_close(*found)
