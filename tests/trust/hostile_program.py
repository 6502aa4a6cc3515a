"""A program in which every name and text is hostile, with inputs and its signature."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from packages.wrapper_ir.tests.quoting.hostile import texts
from torch import Tensor

from py_wrapper import TORCH_MACHINE
from wrapper_ir import ir, parse_program, verify
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.support.quoting import plain_name, quote, symbol_name, value_name

_SYMBOLS = (
    "s0",
    "ﬁ",
    "名",
    "é",
    "match",
    "print",
    "torch",
    "args",
    "int",
    "type",
    "x" * 150,
    "__debug__",
    "__file__",
)
_LEAF = ir.TreeSpec(kind=ir.TreeKind.LEAF)

ARGUMENTS = (torch.arange(12.0).reshape(3, 4) - 5, torch.tensor(True))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileProgram:
    """`names` are distinct, `texts` need not be; `plain` omits the parts that the example emitter refuses."""

    names: Sequence[str]
    texts: Sequence[str]
    symbol: str
    plain: bool = False

    def text(self) -> str:
        """The program in text form."""
        v, t, s = (
            [value_name(n) for n in self.names],
            [quote(x) for x in self.texts],
            symbol_name(self.symbol),
        )
        p = [plain_name(n) for n in self.names]
        storage = value_name(f"{self.names[4]}.s")
        launch = f"launch @{v[0]}(%{v[2]}, %{v[4]}, 4*{s})" if not self.plain else f"copy %{v[4]}, %{v[2]}"
        control = f"""
  debug names %{v[5]} {t[5]}
  %{v[6]} = cond %{v[3]} then @{v[7]} else @{v[8]} (%{v[5]}) : f32[{s}, 4]  #2
  %{v[9]} = call_subgraph @{v[8]}(%{v[5]}) : f32[{s}, 4]  #1
  %{v[10]}, %{v[0]} = while @{v[9]} do @{v[10]} carried(%{v[9]}, 2) : f32[{s}, 4], int
  free %{v[5]}
  free %{v[9]}"""
        returned = f"%{v[6]}, %{v[10]}" if not self.plain else f"%{v[5]}, %{v[5]}"
        return f"""wir 0.5
target cpu
symbol {s} : int backed [1, 64] hint 8
const %{v[1]} : f32[4]
extern "aten::relu(Tensor self) -> Tensor"
{"" if self.plain else self._kernel(v, p)}
func @{v[11]}(%{v[2]}: f32[{s}, 4], %{v[3]}: bool[]) {{
  define {s} = size(%{v[2]}, 0)
  comment {t[0]}
  assert_layout %{v[2]} [{s}, 4] [4, 1] {t[1]}  #1
  assert {s} <= 64 {t[2]}
  assert_finite %{v[2]} {t[3]}
  %{v[4]} = alloc f32[{s}, 4]  #1
  {launch}  #1
  %{v[5]} = call aten::relu(%{v[4]}) : f32[{s}, 4]  #2
  free %{storage}
  comment {t[4]}{control if not self.plain else ""}
  %{v[12]} = view %{v[1]} : f32[2, 2]
  %{v[13]} = alloc f32[2, 2]
  copy %{v[13]}, %{v[12]}
  return {returned}, %{v[13]}
}}
{"" if self.plain else self._callees(v, s)}
provenance
  #1 nodes({t[6]}) ops({t[7]}) at({t[8]}) modules({t[9]})
  #2 nodes({t[9]}, {t[8]}) ops({t[6]}) at({t[7]}) modules({t[5]})
"""

    @staticmethod
    def _kernel(v: Sequence[str], p: Sequence[str]) -> str:
        return f"""kernel foreign @{v[0]} runtime "pytest-kernels" (read f32* {p[1]}, write f32* {p[2]}, i64 {p[3]}) {{{{{{
double
}}}}}}"""

    @staticmethod
    def _callees(v: Sequence[str], s: str) -> str:
        return f"""
func @{v[7]}(%{v[2]}: f32[{s}, 4]) captures({s}) {{
  %{v[11]} = alloc f32[{s}, 4]
  launch @{v[0]}(%{v[2]}, %{v[11]}, 4*{s})
  return %{v[11]}
}}
func @{v[8]}(%{v[2]}: f32[{s}, 4]) captures({s}) {{
  %{v[0]} = call aten::relu(%{v[2]}) : f32[{s}, 4]
  return %{v[0]}
}}
func @{v[9]}(%{v[0]}: f32[{s}, 4], %{v[12]}: int) captures({s}) {{
  return 3 > 4
}}
func @{v[10]}(%{v[0]}: f32[{s}, 4], %{v[3]}: int) captures({s}) {{
  %{v[5]} = alloc f32[{s}, 4]
  copy %{v[5]}, %{v[0]}
  return %{v[5]}, 0
}}"""

    def artifact(self) -> Artifact:
        """The program with its constant, and keys, names and literals around it: called with a dict of both
        arguments and a text, it returns a dict.
        """
        program = parse_program(self.text())
        data = {self.names[1]: TORCH_MACHINE.data(torch.arange(4.0))}
        bare = bare_artifact(program, data)
        keys = list(dict.fromkeys(json.dumps(x) for x in self.names))
        arguments = ir.TreeSpec(kind=ir.TreeKind.DICT, children=(_LEAF, _LEAF), keys=tuple(keys[:2]))
        positional = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(arguments, _LEAF))
        signature = dataclasses.replace(
            bare.signature,
            inputs=ir.TreeSpec(
                kind=ir.TreeKind.TUPLE, children=(positional, ir.TreeSpec(kind=ir.TreeKind.DICT))
            ),
            statics=(ir.StaticInput(leaf=2, value=self.texts[0]),),
            names=tuple(self.texts[:3]),
            outputs=ir.TreeSpec(kind=ir.TreeKind.DICT, children=(_LEAF,) * 4, keys=tuple(keys[2:6])),
            bindings=(*(ir.ResultOutput(index=i) for i in range(3)), ir.ConstantOutput(value=self.texts[1])),
        )
        found = dataclasses.replace(bare, signature=signature)
        verify(found)
        return found

    def arguments(self) -> tuple[Any, ...]:  # Any: by the signature
        """Returns the arguments of a call."""
        x, predicate = (a.clone() for a in ARGUMENTS)
        return {self.names[0]: x, self.names[1]: predicate}, self.texts[0]

    def expected(self) -> dict[str, Any]:  # Any: tensors and a text
        """Returns the expected results of a call."""
        x = ARGUMENTS[0]
        y = torch.relu(x if self.plain else x * 2)
        found: list[Tensor | str] = [
            y if self.plain else y * 2,
            y,
            torch.arange(4.0).reshape(2, 2),
            self.texts[1],
        ]
        return dict(zip(self.names[2:6], found, strict=True))


def hostile_programs(plain: bool = False) -> st.SearchStrategy[HostileProgram]:
    """Programs of which only names and texts differ."""
    # `alloc` has a separate storage, whose name has `.s` appended. Keys of JSON merge two surrogates into one
    # character.
    names = texts().filter(lambda name: not name.endswith(".s") and json.loads(json.dumps(name)) == name)
    return st.builds(
        HostileProgram,
        names=st.lists(names, min_size=14, max_size=14, unique=True),
        texts=st.lists(texts(), min_size=10, max_size=10),
        symbol=st.sampled_from(_SYMBOLS),
        plain=st.just(plain),
    )
