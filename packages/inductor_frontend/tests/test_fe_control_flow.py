"""Capture of control flow: functions, their parameters and ownership, and graphs that torch cannot
compile."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.while_loop import while_loop, while_loop_stack_output_op

import inductor_frontend
from inductor_frontend import CaptureOptions
from inductor_frontend.translate.finish import finish
from tests.common.torch_versions import golden_file
from tests.control.control_cases import CASES
from tests.control.control_ops import traced
from wrapper_ir import ir, print_program
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.errors import WirError

GOLDEN = Path(__file__).parent / "golden"
Check = Callable[..., None]
X = torch.rand(6, 3)

# Any in this file: functions with control flow return whatever it returns.


@pytest.fixture(autouse=True)
def _scalars() -> Iterator[None]:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        yield


UNCHECKED = CaptureOptions(layout_asserts=False)
"""Versions of torch check inputs at other places."""


def captured(name: str, options: CaptureOptions | None = None) -> ir.Program:
    case = CASES[name]
    function, args = case.make(traced), case.args[0]
    return inductor_frontend.capture(function, args, dynamic_shapes=case.dynamic, options=options).program


def compiled(function: Callable[..., Any], *args: Tensor, dynamic: bool = False) -> list[ir.Program]:
    """Returns the programs that the backend compiles for a call of a function."""
    programs: list[ir.Program] = []

    def record(program: ir.Program, options: CaptureOptions) -> Analyses:
        graph = finish(program, options)
        programs.append(graph.program)
        return graph

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inductor_frontend.backend.lowered.finish", record)
        options: dict[str, Any] = {"layout_asserts": False}
        torch.compile(function, backend="wrapper_ir", dynamic=dynamic, fullgraph=True, options=options)(*args)
    return programs


def functions_of(program: ir.Program) -> str:
    """All functions, without provenance."""
    text = print_program(program)
    lines = text[text.index("func @main") :].partition("\nprovenance")[0].splitlines()
    return "\n".join(line.partition("  #")[0] for line in lines).rstrip() + "\n"


def stacked(n: Tensor, x: Tensor) -> Any:
    def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ops.flow.plus(i, torch.ops.flow.number(1)), torch.ops.flow.times(y, 2)

    carried: Any = (torch.ops.flow.number(0), x)
    return while_loop_stack_output_op(lambda i, y: torch.ops.flow.less(i, n), body, carried, ())


class Regions(nn.Module):
    """Layers that are one region, called with different weights."""

    class Layer(nn.Module):
        """A layer."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3, bias=False)

        @torch.compiler.nested_compile_region
        def forward(self, x: Tensor) -> Any:
            """The result."""
            return torch.ops.flow.times(self.linear(x), 2)

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Regions.Layer(), Regions.Layer()])
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Any:
        """The layers one after the other."""
        for layer in self.layers:
            x = layer(x)
        return x


def regions() -> ir.Program:
    """Other exports inline a region at each call."""
    exported = torch.export.export(Regions(), (X,), strict=True)
    return inductor_frontend.capture(exported, (X,), options=UNCHECKED).program


SHOWN: dict[str, Callable[[], ir.Program]] = {
    "cond_with_a_symbol_of_its_closure": lambda: captured("symbol", UNCHECKED),
    "cond_of_unequal_sizes": lambda: captured("unequal", UNCHECKED),
    "cond_in_while": lambda: captured("branch_in_loop", UNCHECKED),
    "region_called_twice": regions,
    "stacked_loop": lambda: compiled(stacked, torch.tensor(3), X, dynamic=True)[0],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_golden(name: str, update_golden: bool) -> None:
    text = functions_of(SHOWN[name]())
    path = golden_file(GOLDEN / f"{name}.wir.txt")
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def op_of(program: ir.Program, cls: type[Any]) -> Any:
    (op,) = [op for op in program.main.body if isinstance(op, cls)]
    return op


class TestOwnership:
    """Storages that end with a call are moved into it."""

    def test_branches_own_what_ends_with_the_call(self) -> None:
        program = captured("strides")
        op = op_of(program, ir.Switch)
        for name in op.branches:
            function = program.function(name)
            (param,) = function.params
            assert param.ownership is ir.Ownership.OWNED
            assert param.value in {op.storage for op in function.body if isinstance(op, ir.Free)}
        assert op.args[0] not in {op.storage for op in program.main.body if isinstance(op, ir.Free)}

    def test_inputs_of_the_model_stay_the_callers(self) -> None:
        program = captured("predicate")
        for function in program.functions:
            assert all(p.ownership is ir.Ownership.BORROWED for p in function.params)

    def test_loops_borrow_and_what_they_call_owns(self) -> None:
        # called twice: torch inlines a single call
        region = torch.compiler.nested_compile_region(lambda x: torch.ops.flow.times(x, 2))

        def function(n: Tensor, x: Tensor) -> Any:
            def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
                y = region(region(torch.ops.flow.plus(y, y)))
                return torch.ops.flow.plus(i, torch.ops.flow.number(1)), y

            loop: Any = while_loop
            return loop(lambda i, y: torch.ops.flow.less(i, n), body, (torch.ops.flow.number(0), x))

        (program,) = compiled(function, torch.tensor(3), X)
        op = op_of(program, ir.WhileLoop)
        in_loop = {op.cond_fn, op.body_fn}
        owning = {
            f.name for f in program.functions if any(p.ownership is ir.Ownership.OWNED for p in f.params)
        }
        assert len(program.functions) == 4
        assert owning == {f.name for f in program.functions} - in_loop - {program.main.name}

    def test_every_call_has_to_end_the_storage(self) -> None:
        """A region that is called with an input of the model, and with the result of the first call."""
        (call, again) = (op for op in regions().main.body if isinstance(op, ir.CallSubgraph))
        assert call.function == again.function
        assert regions().function(call.function).params[0].ownership is ir.Ownership.BORROWED


def test_constants_are_no_arguments() -> None:
    """The functions access weights directly."""
    program = captured("layers")
    op = op_of(program, ir.Switch)
    assert len(op.args) == 1
    counts = [print_program(program).count(f"%{c.value.name}") for c in program.constants]
    assert len(counts) == 4
    assert all(n >= 2 for n in counts)


def test_weights_of_a_region_are_arguments() -> None:
    program = regions()
    calls = [op for op in program.main.body if isinstance(op, ir.CallSubgraph)]
    weights = {c.value for c in program.constants}
    assert len(weights) == len(calls) == 2
    assert [len(weights & {a for a in op.args if isinstance(a, ir.Value)}) for op in calls] == [1, 1]


def test_ops_come_from_their_own_branch() -> None:
    """For torch, the conditional and its operands are origins of all ops inside it."""
    case = CASES["predicate"]
    (program,) = compiled(case.make(traced), *case.args[0])
    op = op_of(program, ir.Switch)
    (call,) = [o for o in program.function(op.branches[1]).body if isinstance(o, ir.CallExtern)]
    assert call.prov.ops == ("flow.times.default",)
    (place,) = call.prov.locations
    assert place.startswith("tests/control/control_cases.py:")
    assert op.prov.ops[0] == "cond"


def test_branches_share_kernels() -> None:
    def function(x: Tensor) -> Any:
        p = torch.ops.flow.positive(x)
        y = torch.cond(p, lambda x: x.sin() + 1, lambda x: torch.ops.flow.times(x, 2), (x,))
        return y.sin() + 1

    program = inductor_frontend.capture(function, (X,)).program
    launched = [op.kernel for f in program.functions for op in f.body if isinstance(op, ir.Launch)]
    assert len(launched) == 2
    assert len(program.kernels) == len(set(launched))


def test_operands_in_another_layout_are_copied(equals_eager: Check) -> None:
    """Torch lowers a branch for the layouts of the trace, and then computes its operand in another layout."""
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 4, 3).requires_grad_(False)

    def make(cond: Callable[..., Any]) -> Callable[..., Any]:
        def function(p: Tensor, x: Tensor) -> Any:
            y = conv(x)
            return cond(p, lambda y: torch.ops.flow.times(y, 2), lambda y: torch.ops.flow.plus(y, y), (y,))

        return function

    def python(p: Tensor, true: Any, false: Any, args: Any) -> Any:
        return true(*args) if p else false(*args)

    x = torch.rand(2, 3, 6, 6)
    artifact = inductor_frontend.capture(make(torch.cond), (torch.tensor(True), x))
    op = op_of(artifact.program, ir.Switch)
    (copied,) = [c for c in artifact.program.main.body if isinstance(c, ir.Copy)]
    assert copied.dst == op.args[0]
    assert copied.src.type != copied.dst.type
    for p in (True, False):
        equals_eager(artifact, make(python), torch.tensor(p), x)


# --- refused


def refused(code: str, *parts: str) -> Any:  # Any: pytest's own context type
    """Expects that the block raises an error of this code and message, even if torch wraps it in another."""
    pattern = r"(?s)" + ".*".join([rf"\[{code}\]", *map(re.escape, parts)])
    return pytest.raises((WirError, torch._dynamo.exc.BackendCompilerFailed), match=pattern)


def test_numbers_carried_by_loops() -> None:
    def function(x: Tensor) -> Any:
        loop: Any = while_loop
        return loop(lambda i, y: i < 3, lambda i, y: (i + 1, torch.ops.flow.times(y, 2)), (0, x))

    with refused("FE104", "hint", "carries integers", "tensors of one element"):
        inductor_frontend.capture(function, (X,))


def test_numbers_returned_by_branches() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        return torch.cond(p, lambda x: (x.clone(), 1), lambda x: (x.clone(), 2), (x,))

    with refused("FE104", "hint", "return numbers", "tensors of one element"):
        inductor_frontend.capture(function, (torch.tensor(True), X))


def test_maps_without_symbols_for_numbers() -> None:
    def function(x: Tensor) -> Any:
        rows: Any = map_rows
        return rows(lambda row: torch.ops.flow.times(row, 2), x)

    with (
        torch._dynamo.config.patch(capture_scalar_outputs=False),
        refused("FE104", "hint", "capture_scalar_outputs = True"),
    ):
        torch.compile(function, backend="wrapper_ir")(X)


def test_branches_that_return_their_operand() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        return torch.cond(p, lambda x: x, lambda x: torch.ops.flow.times(x, 2), (x,))

    with refused("FE101", "alias", "hint"):
        inductor_frontend.capture(function, (torch.tensor(True), X))


def test_pointwise_scans_need_another_device() -> None:
    def function(x: Tensor) -> Any:
        return associative_scan(lambda a, b: a * b, x, 0, combine_mode="pointwise")

    with refused("FE10[14]", "pointwise"):  # by torch.export, in newer versions by Inductor
        inductor_frontend.capture(function, (X,))
