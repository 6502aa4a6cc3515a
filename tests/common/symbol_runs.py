"""Cases about symbols, and their checks: capture or torch.compile, round trips, runs compared with eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

import inductor_frontend.backend.lowered as lowered
from inductor_frontend import CaptureOptions, capture
from inductor_frontend.translate.finish import finish
from tests.common.torch_versions import golden_file, since
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import WirError
from wrapper_ir.json import from_json, to_json
from wrapper_ir.plugins.registry import emitter, machine
from wrapper_ir.text import parse_program, print_program
from wrapper_ir_runtime.interp import call

Args = tuple[Any, ...]  # Any: the arguments of any function
# Torch publishes no types for these.
check: Callable[..., None] = torch._check
check_is_size: Callable[..., None] = torch._check_is_size
check_value: Callable[..., None] = torch._check_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A function and its calls.

    `args` is the example; `others` must equal eager; `bad` (arguments and words of the message) must be
    refused at run time. `slow` generates kernels, so it runs with the long proofs. `needs` is the first torch
    that supports it, with the reason.
    """

    name: str
    function: Callable[..., Any]
    args: Args
    others: tuple[Args, ...] = ()
    bad: tuple[tuple[Args, str], ...] = ()
    dynamic: Any = None  # Any: torch.export's nested form
    options: CaptureOptions = field(default_factory=CaptureOptions)
    slow: bool = False
    needs: tuple[str, str] = ("2.11", "")

    def param(self) -> Any:  # Any: pytest's own type
        """The case as a parameter of a test."""
        marks = [pytest.mark.conformance] if self.slow else []
        first, why = self.needs
        if not since(first):
            marks.append(pytest.mark.skip(reason=f"torch before {first}: {why}"))
        return pytest.param(self, id=self.name, marks=marks)


def series(*sizes: int) -> torch.Tensor:
    """Numbers of both signs, the same in every run."""
    return torch.arange(1, 1 + torch.Size(sizes).numel(), dtype=torch.float32).reshape(sizes).sin()


def number(value: float | bool) -> torch.Tensor:
    """A tensor of one element, which Dynamo does not treat as a Python number."""
    return torch.tensor([value])


def inputs(tree: Any) -> Any:
    """Copies of the tensors that own their memory.

    Views keep their base, and thereby their strides and offset.
    """
    return pytree.tree_map_only(torch.Tensor, lambda t: t if t._is_view() else t.detach().clone(), tree)


def _same(got: Any, want: Any) -> None:
    got_leaves, got_spec = pytree.tree_flatten(got)
    want_leaves, want_spec = pytree.tree_flatten(want)
    assert got_spec == want_spec
    for a, b in zip(got_leaves, want_leaves, strict=True):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
        else:
            assert type(a) is type(b)
            assert a == b


def check_round_trips(program: ir.Program) -> None:
    """Checks that text and JSON are lossless."""
    assert parse_program(print_program(program)) == program
    assert from_json(to_json(program)) == program


def runs_of(artifact: Artifact) -> Mapping[str, Callable[..., Any]]:
    """The two ways to run an artifact."""
    return {
        "interpreter": lambda *args: call(artifact, machine("torch"), args),
        "python": emitter("python").compile(artifact),
    }


def check_capture(case: Case, exported: ExportedProgram | None = None) -> Artifact:
    """Captures a case, or its exported program, and runs all its calls."""
    source = case.function if exported is None else exported
    artifact = capture(source, case.args, dynamic_shapes=case.dynamic, options=case.options)
    check_round_trips(artifact.program)
    for name, run in runs_of(artifact).items():
        for args in (case.args, *case.others):
            _same(run(*inputs(args)), case.function(*inputs(args)))
        for args, words in case.bad:
            with pytest.raises(WirError, match=words):
                pytest.fail(f"{name} gives {run(*inputs(args))}")
    return artifact


def check_compile(case: Case, *, refuses: bool = False) -> list[ir.Program]:
    """Compiles a case with everything dynamic, and runs its calls.

    With `refuses`, bad calls are refused; otherwise Dynamo's guards recompile for them.
    """
    compiled = torch.compile(case.function, backend="wrapper_ir", dynamic=True)
    symbolic = torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
    with compiled_programs() as programs, symbolic, torch.no_grad():
        for args in (case.args, *case.others):
            _same(compiled(*inputs(args)), case.function(*inputs(args)))
        for args, _ in case.bad if refuses else ():
            with pytest.raises((WirError, RuntimeError, ValueError)):
                pytest.fail(f"torch.compile gives {compiled(*inputs(args))}")
    for program in programs:
        check_round_trips(program)
    return programs


@contextmanager
def compiled_programs() -> Iterator[list[ir.Program]]:
    """Collects the programs of the backend in this block."""
    programs: list[ir.Program] = []

    def record(program: ir.Program, options: CaptureOptions) -> Analyses:
        found = finish(program, options)
        programs.append(found.program)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowered, "finish", record)
        yield programs


def assert_golden(path: Path, program: ir.Program, update: bool) -> None:
    """Compares symbols and functions, without kernels and without source locations, with a file."""
    text = print_program(program)
    lines = text[: text.index("\nprovenance")].splitlines()
    kept = [line.partition("  #")[0] for line in lines if line.startswith(("symbol", "func", "  ", "}"))]
    shown = "\n".join(kept) + "\n"
    path = golden_file(path)
    if update:
        path.write_text(shown, encoding="utf-8")
    golden = path.read_text(encoding="utf-8")
    if not since("2.12"):  # it checks every input at the start
        shown, golden = ("\n".join(sorted(x.splitlines())) for x in (shown, golden))
    assert shown == golden
