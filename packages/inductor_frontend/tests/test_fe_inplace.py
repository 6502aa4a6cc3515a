"""In-place kernels. The storage that a kernel reuses is an optional captured fact. The parameters that may
share bytes are a property of the kernel, stated in the program and checked by the verifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from inductor_frontend import CaptureOptions, capture
from inductor_frontend.kernels.launches import Launches
from inductor_frontend.record.events import CallKernel
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.registry import emitter
from wrapper_ir.text import parse_program, print_program
from wrapper_ir.verifier import check

Check = Callable[..., None]

OUT_OF_PLACE = CaptureOptions(inplace_kernels=False)


def chain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.relu(x @ w) @ w)


def update(state: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    state.mul_(2).add_(x)
    return state.sum()


def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.sin(x), torch.cos(y)]) * 2


def reuses(program: ir.Program) -> list[ir.View]:
    return [op for op in program.main.body if isinstance(op, ir.View) and op.mode is ir.ViewMode.REUSE]


def in_place(program: ir.Program) -> set[tuple[str, str]]:
    return {(p.name, other) for k in program.kernels for p in k.params for other in p.may_alias}


def overlaps(program: ir.Program) -> set[tuple[str, str]]:
    return {(p.name, other) for k in program.kernels for p in k.params for other in p.may_overlap}


def without_aliases(program: ir.Program) -> ir.Program:
    def alone(param: ir.KernelParam) -> ir.KernelParam:
        return replace(param, may_alias=(), may_overlap=())

    kernels = tuple(replace(k, params=tuple(map(alone, k.params))) for k in program.kernels)
    return replace(program, kernels=kernels)


@pytest.fixture
def square() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(4, 4), torch.randn(4, 4)


class TestReuse:
    def test_a_kernel_takes_over_what_it_reads(self, square: tuple[torch.Tensor, torch.Tensor]) -> None:
        program = capture(chain, square).program
        assert [(v.source.name, v.result.name) for v in reuses(program)] == [
            ("buf0", "buf1"),
            ("buf2", "buf3"),
        ]
        (kernel,) = program.kernels
        assert [(p.name, p.access) for p in kernel.params] == [("in_out_ptr0", ir.Access.READWRITE)]

    def test_left_out_every_output_has_its_own_storage(
        self, square: tuple[torch.Tensor, torch.Tensor], equals_eager: Check
    ) -> None:
        inside, apart = capture(chain, square), capture(chain, square, options=OUT_OF_PLACE)
        assert reuses(apart.program) == []
        (kernel,) = apart.program.kernels
        assert [(p.name, p.access) for p in kernel.params] == [
            ("in_ptr0", ir.Access.READ),
            ("out_ptr0", ir.Access.WRITE),
        ]
        count = [sum(isinstance(op, ir.AllocStorage) for op in a.program.main.body) for a in (inside, apart)]
        assert count == [2, 4]
        for artifact in (inside, apart):
            equals_eager(artifact, chain, *square)

    def test_an_input_that_is_needed_later_is_not_taken_over(self) -> None:
        def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = x @ w
            return y.relu(), y @ w

        program = capture(function, (torch.randn(4, 4), torch.randn(4, 4))).program
        for view in reuses(program):
            later = program.main.body[program.main.body.index(view) + 1 :]
            assert all(view.source not in ir.operands(op) for op in later)


class TestPartners:
    """Parameters that share a storage: a mutated input that is read and written through two pointers, and a
    concatenation that is read after its parts were written."""

    @pytest.mark.parametrize("options", [CaptureOptions(), OUT_OF_PLACE])
    def test_a_mutated_input(self, options: CaptureOptions, equals_eager: Check) -> None:
        args = (torch.randn(3, 4), torch.randn(3, 4))
        artifact = capture(update, args, options=options)
        assert in_place(artifact.program) == {("in_ptr0", "out_ptr2"), ("out_ptr2", "in_ptr0")}
        assert overlaps(artifact.program) == set()
        self.check_stored(artifact.program)
        equals_eager(artifact, update, *args)

    def test_a_concatenation_that_is_read_back(self, equals_eager: Check) -> None:
        """The parts are adjacent, and the kernel reads elements that it has just written: no in-place
        pair."""
        args = (torch.randn(2, 3), torch.randn(4, 3))
        artifact = capture(joined, args)
        assert {pair for pair in overlaps(artifact.program) if pair[0] < pair[1]} == {
            ("in_ptr2", "out_ptr0"),
            ("in_ptr2", "out_ptr1"),
            ("out_ptr0", "out_ptr1"),
        }
        self.check_stored(artifact.program)
        equals_eager(artifact, joined, *args)

    def check_stored(self, program: ir.Program) -> None:
        """In the kernel's definition and its text; the verifier refuses the program without."""
        text = print_program(program)
        assert ("may_alias(" in text) == bool(in_place(program))
        assert ("may_overlap(" in text) == bool(overlaps(program))
        assert parse_program(text) == program
        assert "WIR087" in {finding.code for finding in check(without_aliases(program))}

    def test_pairs_do_not_depend_on_what_a_capture_did(
        self, square: tuple[torch.Tensor, torch.Tensor]
    ) -> None:
        inside, apart = (capture(chain, square, options=o).program for o in (CaptureOptions(), OUT_OF_PLACE))
        assert in_place(inside) == set()  # there is one pointer
        assert in_place(apart) == {("in_ptr0", "out_ptr0"), ("out_ptr0", "in_ptr0")}
        assert check(without_aliases(apart)) == ()  # what may be shared is not


def test_one_source_given_shared_and_separate_bytes_is_two_kernels(
    equals_eager: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parameters that may share bytes are a property of the source, not of a call. In place, the kernel
    writes its operand, so the second definition differs only in its access."""
    once = Launches.call

    def twice(self: Launches, event: CallKernel) -> None:
        once(self, event)
        _, out = event.args
        once(self, replace(event, args=(out, out), produced=frozenset()))

    monkeypatch.setattr(Launches, "call", twice)
    x = torch.randn(8)
    artifact = capture(torch.sin, (x,))
    equals_eager(artifact, lambda x: torch.sin(torch.sin(x)), x)
    kernels = [k for k in artifact.program.kernels if isinstance(k, ir.CppKernel)]
    assert len({k.source for k in kernels}) == 1
    pair = {("in_ptr0", "out_ptr0"), ("out_ptr0", "in_ptr0")}
    assert [in_place(replace(artifact.program, kernels=(k,))) for k in kernels] == [pair, pair]
    assert [k.params[1].access for k in kernels] == [ir.Access.WRITE, ir.Access.READWRITE]


def test_the_option_reaches_torch_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[ir.Program] = []
    python = type(emitter("python"))
    compile = python.compile

    def record(self: Any, artifact: Artifact, *args: Any) -> Any:  # Any: the emitter's own types
        programs.append(artifact.program)
        return compile(self, artifact, *args)

    monkeypatch.setattr(python, "compile", record)
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    compiled = torch.compile(chain, backend="wrapper_ir", options={"inplace_kernels": False})
    torch.testing.assert_close(compiled(x, w), chain(x, w))
    assert [reuses(p) for p in programs] == [[]]


def circular(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x, (0, 2, 0, 1), mode="circular")


def plain(x: torch.Tensor) -> torch.Tensor:
    whole = torch.empty_like(x)
    whole.copy_(x * 2)
    return whole


class TestUndefinedBytes:
    """Memory of `torch.empty` is zeroed if a kernel reads it, and is left uninitialized otherwise."""

    def test_bytes_that_are_read_are_zero(self, equals_eager: Check) -> None:
        x = torch.randn(2, 3, 5, 5)
        artifact = capture(circular, (x,))
        zeroed = [op for op in allocations(artifact.program) if op.zero is ir.ZeroMode.CALL]
        assert len(zeroed) == 1, print_program(artifact.program)
        equals_eager(artifact, circular, x)

    def test_bytes_that_are_written_first_are_not_cleared(self, equals_eager: Check) -> None:
        x = torch.randn(8)
        artifact = capture(plain, (x,))
        assert {op.zero for op in allocations(artifact.program)} == {ir.ZeroMode.NONE}
        equals_eager(artifact, plain, x)


def allocations(program: ir.Program) -> list[ir.AllocStorage]:
    return [op for op in program.main.body if isinstance(op, ir.AllocStorage)]
