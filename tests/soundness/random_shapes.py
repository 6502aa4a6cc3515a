"""Random programs of slices, masks, pads, joins, views, splits and writes over dynamic and data-dependent sizes.

A program is Python text. A statement is kept where eager runs it on every set of inputs, so that each program is right
for all of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Any in this file: the results of made-up functions.
_ROWS = ((8, 5, 3), (9, 4, 2), (6, 6, 6), (12, 3, 4))
_MAX_ELEMENTS = 4000


def _inputs(rows: int, others: int, number: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(rows)
    a, b = (torch.randn(n, 6, generator=generator) for n in (rows, others))
    if rows == others:
        a = -a.abs()  # masks choose nothing
    return a, b, torch.tensor(number)


INPUTS = tuple(_inputs(*rows) for rows in _ROWS)
"""Sets of inputs of every program: two matrices of any number of rows, and a number up to either."""

_HEAD = "    k = n.item()\n    torch._check(k >= 0)\n    torch._check(k <= a.shape[0])\n"
_NUMBERS = (
    "a.shape[0] - b.shape[0]",
    "a.shape[0] // 2",
    "b.shape[0]",
    "k",
    "a.shape[0] - k",
    "a.shape[0] // 3",
)
_STEPS = (
    "{x}[:-1]",
    "{x}[1:]",
    "{x}[-3:]",
    "{x}[2:-2]",
    "{x}[: {x}.shape[0] // 2]",
    "{x}[{x}.shape[0] // 3 :]",
    "a[: {n}]",
    "a[{n} :]",
    "{x}[:, 1:]",
    "{x}[:, : {x}.shape[1] // 2]",
    "{x}[::2]",
    "torch.cat([{x}, {y}], 0)",
    "torch.cat([{x}, {y}], 1)",
    "torch.cat([{x}, {x} + 1, {x}], 1)",
    "torch.stack([{x}, {x} * 2], 1).flatten(0, 1)",
    "torch.stack([{x}, {x} * 2], 2).flatten(1, 2)",
    "torch.stack([{x}, {y}], 0).flatten(0, 1)",
    "F.pad({x}, ({i}, {j}))",
    "F.pad({x}, (0, 0, {i}, {j}))",
    "F.pad({x}, ({i}, {j}, {j}, {i}))",
    "{x}[{x}[:, 0] > 0]",
    "{x}[{x}.sum(1) > 0.5]",
    "{x}.chunk(2, 0)[0]",
    "{x}.chunk(3, 1)[0]",
    "{x}.split(2, 0)[0]",
    "{x}.split(1, 1)[0]",
    "{x}.reshape(-1, 1)",
    "{x}.reshape({x}.shape[1], {x}.shape[0])",
    "{x}.t()",
    "{x}.unsqueeze(1).expand(-1, 2, -1).flatten(1, 2)",
    "torch.ones({n}, 6)",
    "torch.zeros({n}, 2) + 1",
    "torch.nonzero({x} > 0).float()",
    "{x}.sum(1, keepdim=True)",
    "{x}.cumsum(0)",
    "{x} * 2 + 1",
    "{x} @ {x}.t()",
    "{x}.flip(0)",
    "torch.roll({x}, 1, 0)",
    "torch.diagonal({x}).unsqueeze(1)",
    "{x}.narrow(0, {x}.shape[0] // 2, {x}.shape[0] - {x}.shape[0] // 2)",
    "{x}.tensor_split(3, 0)[1]",
    "{x}.split([1, {x}.shape[0] - 1], 0)[1]",
    "{x}.unbind(1)[0].unsqueeze(1)",
    "{x}.unfold(0, 2, 1).flatten(1)",
    "{x}.repeat(2, 1)",
    "{x}.view(-1).unsqueeze(0)",
    "{x}[{x}[:, 0].argsort()]",
    "torch.masked_select({x}, {x} > 0).unsqueeze(1)",
    "torch.where({x} > 0, {x}, {y})",
    "torch.slice_scatter({x}, {x}[1:] * 2, 0, 1)",
    "torch.vstack([{x}[1:], {y}])",
    "written({x}, slice(1, None))",
    "written({x}, slice(None, None, 2))",
    "written({x}, slice(-2, None))",
    "written({x}, slice(None, {n}))",
    "written({x}.t(), slice(1, -1))",
    "written({x}, {x} > 0)",
    "shifted({x})",
)


def written(x: Tensor, index: Any) -> Tensor:
    """A copy of `x`, part of which is overwritten."""
    y = x.clone()
    y[index] = 0
    y[:, 1:].mul_(2)
    return y


def shifted(x: Tensor) -> Tensor:
    """The rows of `x`, each a row later."""
    y = torch.zeros_like(x)
    y[1:] = x[:-1]
    return y


@dataclass(frozen=True, slots=True)
class RandomProgram:
    """A function of `INPUTS`, and its text."""

    text: str

    def function(self) -> Callable[..., tuple[Tensor, ...]]:
        """The function; a new one each time."""
        scope: dict[str, Any] = {"torch": torch, "F": F, "written": written, "shifted": shifted}
        exec(self.text, scope)  # text that this module has made
        found: Callable[..., tuple[Tensor, ...]] = scope["f"]
        return found


def _text(statements: Sequence[str]) -> str:
    lines = "".join(f"    {statement}\n" for statement in statements)
    results = ", ".join(statement.partition(" ")[0] for statement in statements)
    return f"def f(a, b, n):\n{_HEAD}{lines}    return ({results},)\n"


def _runs(program: RandomProgram) -> bool:
    function = program.function()
    try:
        results = [function(*args)[-1] for args in INPUTS]
    except (RuntimeError, IndexError):
        return False
    return all(r.dim() == 2 and r.numel() <= _MAX_ELEMENTS for r in results)


def random_program(seed: int, statements: int = 6) -> RandomProgram:
    """The program of a seed."""
    rng = random.Random(seed)
    kept: list[str] = []
    while len(kept) < statements:
        names = ["a", "b", *(s.partition(" ")[0] for s in kept)]
        step = rng.choice(_STEPS).format(
            x=rng.choice(names),
            y=rng.choice(names),
            n=rng.choice(_NUMBERS),
            i=rng.choice((-2, -1, 0, 1)),
            j=rng.choice((-1, 0, 1, 2)),
        )
        if _runs(RandomProgram(_text([*kept, f"v{len(kept)} = {step}"]))):
            kept.append(f"v{len(kept)} = {step}")
    return RandomProgram(_text(kept))
