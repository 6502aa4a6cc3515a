"""Random programs with collectives, of one process, as text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hypothesis import strategies as st

from tests.collectives.fused_cases import DECLARATIONS

_CALLS: Mapping[str, str] = MappingProxyType(
    {
        "gather": 'all_gather_into_tensor(%{}, 1, "0")',
        "scatter": 'reduce_scatter_tensor(%{}, "sum", 1, "0")',
        "sum": 'all_reduce(%{}, "sum", "0")',
        "sum in place": 'all_reduce_(%{}, "sum", "0")',
    }
)


class _Body:
    """A random function over matrices of 8 by 8, as text: matmuls, collectives of these kinds, in-place
    changes, other names.
    """

    def __init__(self, draw: st.DrawFn, collectives: tuple[str, ...]) -> None:
        self.draw, self.lines, self.collectives = draw, list[str](), collectives
        self.roots = {name: name for name in ("x", "y", "z")}
        self.lent: set[str] = set()
        self.pending: dict[str, str] = {}

    def pick(self, *without: str) -> str:
        """A tensor that shares no memory with these."""
        return self.draw(st.sampled_from([n for n, root in self.roots.items() if root not in without]))

    def allocated(self) -> list[str]:
        """Tensors in storages of the program's own; results of operators are not."""
        return [n for n in self.roots if f"  %{n} = alloc f32[8, 8]" in self.lines]

    def new(self, text: str, root: str = "") -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"  %{name} = {text}")
        self.roots[name] = root or name
        return name

    def add(self) -> None:
        kinds = ("matmul", "matmul", "out", "relu", "change", "name", *self.collectives, "wait")
        kind, a, b = self.draw(st.sampled_from(kinds)), self.pick(), self.pick()
        free = [n for n, root in self.roots.items() if root not in self.lent]
        if kind == "matmul":
            self.new(f"call aten::mm(%{a}, %{b}) : f32[8, 8]")
        elif kind == "out":
            others = {self.roots[a], self.roots[b], *self.lent}
            allocated = [n for n in self.allocated() if n not in others]
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
        elif kind == "sum":
            self.start(kind, self.draw(st.sampled_from([*self.allocated(), a])))
        elif kind == "sum in place" and free:
            self.sum_in_place(self.draw(st.sampled_from(free)))
        elif kind == "scatter":
            matmul = self.new(f"call aten::mm(%{a}, %{b}) : f32[8, 8]")
            self.start(kind, matmul)
            if self.draw(st.booleans()):
                del self.roots[matmul]  # nothing else uses it
        elif self.pending:
            left = self.wait(self.draw(st.sampled_from(sorted(self.pending))))
            self.new(f"call aten::mm(%{left}, %{b}) : f32[8, 8]")

    def start(self, kind: str, a: str) -> None:
        call = _CALLS[kind].format(a)
        name = self.new(f'collective _c10d_functional::{call} group("0") : f32[8, 8]')
        del self.roots[name]
        self.pending[name] = self.roots[a]
        self.lent.add(self.roots[a])

    def sum_in_place(self, a: str) -> None:
        """Nothing uses it in between."""
        root = self.roots[a]
        handle = self.new(
            f'collective _c10d_functional::{_CALLS["sum in place"].format(a)} group("0") : f32[8, 8]'
        )
        del self.roots[handle]
        self.new(f"wait %{handle} : f32[8, 8]", root)

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
        return f"wir 0.5\ntarget cuda:0\n\n{DECLARATIONS}\nfunc @main(%x: f32[8, 8], %y: f32[8, 8], %z: f32[8, 8]) {{\n{body}\n}}\n"


@st.composite
def random_texts(draw: st.DrawFn, *collectives: str) -> str:
    """Programs for a GPU, with collectives of these kinds."""
    body = _Body(draw, collectives)
    for _ in range(draw(st.integers(2, 14))):
        body.add()
    return body.text()
