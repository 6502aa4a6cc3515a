"""Random functions that view, move, write and return their arguments, which may share memory: their caller
observes the same as in eager mode.

The functional graph itself replaces the program, so that nothing has to be compiled: everything else of a
capture is used. `python -m tests.signature.test_signature_fuzz FIRST COUNT` runs more of them.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from inductor_frontend.errors import CaptureError
from inductor_frontend.export.exported import export_model
from inductor_frontend.functionalize.preparation import functional_model
from inductor_frontend.functionalize.views import root_of
from inductor_frontend.options import CaptureOptions
from inductor_frontend.session import capture_session
from tests.signature.call_effects import differences, observe
from wrapper_ir import ir
from wrapper_ir.expr import SymKind
from wrapper_ir_runtime import TorchCaller, signature_call

# Any in this file: random functions, their arguments and results.
Function = Callable[..., Any]
Make = Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]

IN_PLACE = (
    "{t}.mul_(2)",
    "{t}.add_(1)",
    "{t}[..., :1].zero_() if {t}.dim() else {t}.zero_()",
    "if {t}.dim(): {t}[0] = 7",
    "{t}.transpose_(0, -1) if {t}.dim() else None",
    "{t}.unsqueeze_(0)",
    "{t}.squeeze_()",
    "{t}.copy_({u}) if {t}.shape == {u}.shape else None",
    "if {t}.shape == {u}.shape: {v} = {t}.clone(); {t}.copy_({u}); {u}.copy_({v})",
)
NEW = (
    "{t}.view(-1) if {t}.is_contiguous() else {t}.reshape(-1).clone()",
    "{t}.flatten()",
    "{t}[1:] if {t}.dim() and {t}.size(0) > 1 else {t}[:] if {t}.dim() else {t}.view(1)",
    "{t}[0] if {t}.dim() > 1 else {t}",
    "{t}.transpose(0, -1) if {t}.dim() else {t}",
    "{t} + 1",
    "{t}.clone()",
    "{t}.detach()",
    "{t}.contiguous()",
    "{t} * {u}.sum()",
)
FIRST = ("own", "own", "slice", "transposed", "row")
OTHERS = ("own", "own", "own", "slice", "transposed", "same", "overlapping")


def random_function(rng: random.Random) -> tuple[str, tuple[str, ...]]:
    """Returns the text of a function `f`, and a factory for each argument."""
    names = [f"x{i}" for i in range(rng.choice((1, 2, 2, 3)))]
    known, lines = [*names], []
    for number in range(rng.randrange(2, 8)):
        words = {"t": rng.choice(known), "u": rng.choice(known), "v": f"v{number}"}
        if rng.random() < 0.45:
            lines.append(rng.choice(IN_PLACE).format(**words))
        else:
            lines.append(f"v{number} = " + rng.choice(NEW).format(**words))
            known.append(f"v{number}")
    outputs = [rng.choice(known) for _ in range(rng.randrange(0, 5))]
    lines.append(f"return ({''.join(f'{o}, ' for o in outputs)})")
    kinds = [rng.choice(OTHERS if i else FIRST) for i in range(len(names))]
    if "overlapping" in kinds and kinds[0] == "slice":
        kinds[0] = "own"  # without changes, the graph counts offsets from the storage's start
    body = "\n    ".join(lines)
    return f"def f({', '.join(names)}):\n    {body}\n", tuple(kinds)


def maker(kinds: tuple[str, ...]) -> Make:
    def make() -> tuple[tuple[Any, ...], dict[str, Any]]:
        made: list[torch.Tensor] = []
        for number, kind in enumerate(kinds):
            made.append(_argument(kind, number, made))
        return tuple(made), {}

    return make


def _argument(kind: str, number: int, made: list[torch.Tensor]) -> torch.Tensor:
    match kind:
        case "slice":
            return (torch.arange(40.0) + number).view(5, 8)[1:, 1:4]
        case "transposed":
            return (torch.arange(12.0) + number).view(3, 4).clone().t()
        case "row":
            return torch.arange(6.0) + number
        case "same":
            return made[0]
        case "overlapping":
            memory = torch.empty(0)
            memory.set_(made[0].untyped_storage())
            return memory[memory.numel() // 3 :]
        case _:
            return (torch.arange(12.0) + number).view(4, 3).clone()


def _origin(node: fx.Node, names: tuple[str, ...]) -> ir.ResultOrigin:
    """Returns the location of a graph's result, in the form of a program's summary."""
    root = root_of(node)
    if root.target is torch.ops.aten.copy_.default:  # an input, once it is written
        root = root.all_input_nodes[0]
    if root.op == "placeholder":
        return ir.ResultOrigin(params=(names.index(root.name),))
    return ir.ResultOrigin(
        own=(ir.Value(root.name, ir.ScalarType(SymKind.INT)),)
    )  # of any type: only its name matters


def engine_of(function: Function, make: Make) -> Function:
    """Everything of a capture but the compiler: the functional graph runs as it is."""
    args, kwargs = make()
    with capture_session(CaptureOptions()):
        graph = functional_model(export_model(function, args, kwargs, None))
    names = tuple(n.name for n in graph.gm.graph.nodes if n.op == "placeholder")
    assert not graph.roles, "a function has no state"

    def boxed(values: list[Any]) -> tuple[Any, ...]:
        with torch.no_grad():
            return tuple(graph.gm(*values))

    origins = tuple(_origin(node, names) for node in graph.gm.graph.output_node().all_input_nodes)
    caller = TorchCaller(torch)
    found = graph.signature(names, ir.FunctionSummary(results=origins))
    return signature_call(found, boxed, caller)


def differences_of(seed: int) -> tuple[str, set[str]]:
    """Returns the function of a seed, and the differences from eager mode that its caller observes.

    Autograd sees more writes than in eager mode if arguments overlap: the writes affect their memory, too.
    """
    text, kinds = random_function(random.Random(seed))
    space: dict[str, Any] = {}
    exec(text, space)
    function, make = space["f"], maker(kinds)
    with torch.no_grad():
        wanted = observe(function, make)
        try:
            got = observe(engine_of(function, make), make)
        except CaptureError as error:
            # One tensor for two arguments, and moved: nothing else may be refused.
            return f"seed {seed}: {error}", set() if error.code == "FE105" and "same" in kinds else {
                error.code
            }
    return f"seed {seed}: {kinds}\n{text}", differences(wanted, got) - {"versions"}


def chunks(count: int, size: int) -> list[range]:
    return [range(first, first + size) for first in range(0, count, size)]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", chunks(40, 10), ids=str)
def test_random_functions(seeds: range) -> None:
    for seed in seeds:
        text, found = differences_of(seed)
        assert not found, text


@pytest.mark.conformance
@pytest.mark.parametrize("seeds", chunks(2000, 100), ids=str)
def test_many_random_functions(seeds: range) -> None:
    test_random_functions(seeds)


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:3])
    for seed in range(first, first + count):
        text, found = differences_of(seed)
        if found:
            print(sorted(found), text)
    print(f"{count} functions")
