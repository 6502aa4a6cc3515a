"""Effects of a call on its caller, beyond the numbers: compared with eager mode and with stock torch.compile."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import inductor_frontend
import py_wrapper
import tests.signature.signature_cases  # noqa: F401  # adds its cases to the list
import wrapper_ir
from tests.common.torch_versions import since
from tests.signature.call_effects import Seen, differences, observe
from tests.signature.signature_case import CASES, Case, pair, x
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime.interp import Interpreter

# Any in this file: models, their arguments and results.
Engine = Callable[..., Any]
STOCK = "aot_eager_decomp_partition"
"""Stock torch.compile, with all its work around a program; its kernels make no difference."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@functools.lru_cache
def artifact_of(name: str) -> Artifact:
    """The case's artifact, as it comes out of a file."""
    case = CASES[name]
    args, kwargs = case.make()
    return inductor_frontend.capture(case.model(), args, kwargs, dynamic_shapes=case.dynamic)


def engines(artifact: Artifact) -> list[Engine]:
    return [Interpreter(artifact, py_wrapper.TORCH_MACHINE), py_wrapper.compile(artifact)]


def look(function: Engine, case: Case) -> Seen:
    torch.manual_seed(5)
    with torch.no_grad():
        return observe(function, case.make, case.calls)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_that_a_caller_sees(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    wanted = look(case.model(), case)
    wrapper_ir.save(artifact_of(name), tmp_path / "case.wir")
    loaded = wrapper_ir.load(tmp_path / "case.wir")
    wrapper_ir.verify(loaded)
    for engine in engines(loaded):
        assert differences(wanted, look(engine, case)) == set(case.ours), engine
    stock = torch.compile(case.model(), backend=STOCK)
    if case.stock_fails:
        with pytest.raises(Exception, match=case.stock_fails):
            look(stock, case)
    else:
        assert differences(wanted, look(stock, case)) == set(case.stock)


def test_differences_have_reasons() -> None:
    assert all(bool(c.reason) == bool(c.stock or c.ours) for c in CASES.values())


def test_an_observation_tells_results_apart() -> None:
    """The comparison would notice: a copy instead of a view, a missing write, another object."""
    case = CASES["written_and_returned"]
    wanted = look(case.model(), case)

    def copies(x: Tensor) -> Any:
        x.mul_(2)
        return x, x.view(-1).clone(), x[1]

    def no_write(x: Tensor) -> Any:
        x = x * 2
        return x, x.view(-1), x[1]

    assert differences(wanted, look(copies, case)) == {"sharing", "views", "writes"}
    assert differences(wanted, look(no_write, case)) >= {"arguments", "identity", "sharing", "versions"}


# --- random numbers


def test_random_numbers_are_those_of_torch_compile() -> None:
    """Random numbers are those of Inductor's own code: the same draws from the same generator, which has the
    same state afterwards.
    """
    case = CASES["random"]
    (value,), _ = case.make()
    stock = torch.compile(case.model())
    artifact = artifact_of("random")
    assert artifact.signature.random == (ir.RandomState(device=ir.CPU),)
    assert artifact_of("plain").signature.random == ()
    runs = []
    for engine in (stock, *engines(artifact)):
        torch.manual_seed(0)
        with torch.no_grad():
            runs.append([t for _ in range(2) for t in engine(value)] + [torch.rand(3)])
    for run in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(runs[0], run, strict=True))


# --- shapes that each call has anew


def dynamic(function: Engine, *args: Any) -> Artifact:
    dims = {0: torch.export.Dim("n", min=2, max=64)}
    return inductor_frontend.capture(function, args, dynamic_shapes=(dims,) * len(args))


def test_moves_of_any_size() -> None:
    def function(x: Tensor) -> Any:
        x.t_()
        x.mul_(2)
        return x[0], x

    artifact = dynamic(function, x())
    assert [w.kind for w in artifact.signature.write_backs] == [ir.WriteBackKind.METADATA]
    for engine in (function, *engines(artifact)):
        mine = torch.arange(21.0).view(7, 3)
        out = engine(mine)
        assert (mine.size(), mine.stride()) == ((3, 7), (1, 3))
        assert out[1] is mine
        assert out[0].data_ptr() == mine.data_ptr()
        torch.testing.assert_close(mine, 2 * torch.arange(21.0).view(7, 3).t())


def test_same_tensor_of_any_size() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        x.mul_(2)
        return x + y

    value = x()
    artifact = dynamic(function, value, value)
    assert artifact.signature.same == (ir.SameTensor(leaves=(0, 1)),)
    for engine in engines(artifact):
        mine = torch.ones(7, 3)
        torch.testing.assert_close(engine(mine, mine), torch.full((7, 3), 4.0))


def test_wrappers_keep_their_size() -> None:
    """torch.export treats the sizes of wrappers as fixed, whatever is declared.

    A call with others is refused.
    """
    for engine in engines(dynamic(lambda t: t + 1, pair(x(), x() * 2))):
        with pytest.raises(ExecutionError, match=r"WIR926.*\[7, 3\]"):
            engine(pair(torch.ones(7, 3), torch.zeros(7, 3)))
        with pytest.raises(ExecutionError, match=r"WIR926.*Tensor"):
            engine(x())


# --- arguments that share memory otherwise than at capture


def test_a_program_for_one_tensor_is_refused_two() -> None:
    for engine in engines(artifact_of("same_tensor_written")):
        with pytest.raises(ExecutionError, match=r"WIR931.*x and y"):
            engine(x(), x())
        value = x()
        torch.testing.assert_close(engine(value, value[:])[0], 4 * x())


def test_a_program_for_two_tensors_is_refused_one() -> None:
    artifact = artifact_of("out_argument")
    for engine in engines(artifact):
        memory = torch.zeros(8, 3)
        with pytest.raises(ExecutionError, match=r"WIR931.*out.*x"):
            engine(memory[:4], memory[1:5])
        engine(memory[:4], memory[4:])
        torch.testing.assert_close(memory[4:], torch.ones(4, 3))


def test_a_program_that_only_reads_does_not_mind() -> None:
    for engine in engines(artifact_of("same_tensor_read")):
        torch.testing.assert_close(engine(x(), x() * 3)[1], x().view(-1) * 3)


def test_overlapping_tensors_may_lie_anywhere() -> None:
    for engine in engines(artifact_of("overlapping_both_written")):
        memory = torch.arange(30.0)
        expected = memory.clone()
        expected[10:18] *= 2
        expected[14:22] += 1
        torch.testing.assert_close(engine(memory[10:18], memory[14:22]), expected[10:18] + expected[14:22])
        torch.testing.assert_close(memory, expected)
        with pytest.raises(ExecutionError, match="WIR931"):
            engine(memory[10:18], memory[15:23])
        with pytest.raises(ExecutionError, match="WIR931"):
            engine(memory[:8].clone(), memory[4:12])


# --- gradients


def test_gradients_are_not_lost_in_silence() -> None:
    """A program records nothing. Under no_grad it equals the model; otherwise it raises."""
    value = x().requires_grad_()
    for engine in engines(artifact_of("views_of_the_input")):
        with pytest.raises(ExecutionError, match=r"WIR930.*x"):
            engine(value)
        engine(value.detach())
        with torch.no_grad():
            out = engine(value)[0]
        (value * 2).sum().backward()  # type: ignore[no-untyped-call]  # torch's
        used = (value**2).sum()
        with torch.no_grad():
            out.add_(1)  # autograd knows whose memory this is
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            used.backward()  # type: ignore[no-untyped-call]  # torch's


def test_a_write_is_known_to_autograd() -> None:
    for engine in engines(artifact_of("written")):
        weight, value = torch.ones(4, 3, requires_grad=True), x()
        used = (weight * value).sum()
        engine(value)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            used.backward()  # type: ignore[no-untyped-call]  # torch's


# --- the model's own parameters


def test_arguments_are_spelled_as_in_python() -> None:
    def function(a: Tensor, b: float = 2.0, c: Tensor | None = None, *, d: str = "x", e: Any = None) -> Any:
        return a * b + 1 if c is None else a * b + c

    artifact = inductor_frontend.capture(function, (x(),), {"c": x()})
    for engine in engines(artifact):
        wanted = function(x(), c=x())
        good: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            ((x(),), {"c": x()}),
            ((), {"a": x(), "c": x()}),
            ((x(), 2.0, x()), {}),
            ((x(), 2.0), {"c": x(), "d": "x", "e": None}),
        ]
        for args, kwargs in good:
            torch.testing.assert_close(engine(*args, **kwargs), wanted)
        bad: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            ((x(), 3.0, x()), {}),
            ((x(),), {}),
            ((x(),), {"c": x(), "e": 1}),
            ((x(),), {"c": x(), "f": 1}),
            ((x(), 2.0, x(), x()), {}),
            ((x(),), {"a": x(), "c": x()}),
        ]
        for args, kwargs in bad:
            with pytest.raises((ExecutionError, TypeError)):
                engine(*args, **kwargs)


def test_a_default_that_was_not_used_is_no_default() -> None:
    """Without it, `flag` would mean something else to the model than at capture."""

    def function(x: Tensor, flag: bool = False) -> Any:
        return x + 1 if flag else x - 1

    artifact = inductor_frontend.capture(function, (x(), True))
    for engine in engines(artifact):
        torch.testing.assert_close(engine(x(), True), x() + 1)
        torch.testing.assert_close(engine(x(), flag=True), x() + 1)
        with pytest.raises((ExecutionError, TypeError)):
            engine(x())


def test_any_number_of_arguments() -> None:
    def function(first: Tensor, *rest: Tensor, **named: Tensor) -> Any:
        return first + sum(rest) + named["last"]

    artifact = inductor_frontend.capture(function, (x(), x(), x()), {"last": x()})
    for engine in engines(artifact):
        torch.testing.assert_close(engine(x(), x(), x(), last=x()), 4 * x())
        with pytest.raises((ExecutionError, TypeError)):
            engine(x(), x(), last=x())


# --- what else can be captured


@pytest.mark.parametrize("decomposed", [False, True])
def test_exported_programs(decomposed: bool) -> None:
    """An exported program keeps its declared writes, in both of torch's forms, and is unchanged."""

    class Model(nn.Module):
        count: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(4, 3))

        def forward(self, x: Tensor) -> Any:
            self.count.add_(1)
            x.mul_(2)
            return x[1:], self.count.view(-1), torch.linalg.inv(torch.eye(3)) @ x[:3]

    exported = torch.export.export(Model(), (x(),))
    exported = exported.run_decompositions() if decomposed else exported
    before = str(exported.graph)
    artifact = inductor_frontend.capture(exported, ())
    assert str(exported.graph) == before
    wanted = Case(name="", module=Model, make=CASES["plain"].make, calls=2)
    for engine in engines(artifact):
        assert differences(look(Model(), wanted), look(engine, wanted)) == set()


def test_capture_leaves_its_arguments_alone() -> None:
    case = CASES["moved_slice"]
    (value,), _ = case.make()
    before = value.clone(), value.stride()
    inductor_frontend.capture(case.model(), (value,))
    torch.testing.assert_close(value, before[0])
    assert value.stride() == before[1]
    assert value._is_view()


def test_a_kept_copy_survives_a_swap() -> None:
    """Torch's own code removes the copy before 2.15, and swaps nothing."""
    case = CASES["swapped"]
    args, _ = case.make()
    with torch.no_grad():
        stock: Engine = torch.compile(case.model())
        stock(*args)
    # our protection can be removed with the last version that needs it
    assert torch.equal(args[0], args[1]) is not since("2.15")


# --- how it is said


def test_bindings() -> None:
    assert artifact_of("written_and_returned").signature.bindings == (
        ir.InputOutput(leaf=0),
        ir.InputView(index=0, leaf=0),
        ir.InputView(index=1, leaf=0),
    )
    assert artifact_of("an_intermediate_and_its_view").signature.bindings == (
        ir.ResultView(index=0, base=1),
        ir.ResultOutput(index=1),
        ir.ResultOutput(index=1),
    )
    assert artifact_of("moved_slice").signature.written == (0,)
    (shared,) = artifact_of("overlapping_written").signature.shared
    assert [(p.leaf, p.sizes, p.offset) for p in shared.places] == [(0, (8,), 0), (1, (8,), 4)]


def test_state_that_callers_get_is_mutable() -> None:
    """A program may map its constants from a read-only file.

    Constants that it returns are separate copies.
    """
    constants = {c.value.name: c.mutable for c in artifact_of("ReturnsItsState").program.constants}
    assert constants == {"weight": True, "count": True}
    constants = {c.value.name: c.mutable for c in artifact_of("WrappedParameter").program.constants}
    assert constants == {"weight.a": True, "weight.b": True}


def test_cases_are_what_they_say() -> None:
    assert all((c.function is None) != (c.module is None) for c in CASES.values())
