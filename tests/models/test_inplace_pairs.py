"""In-place pairs of kernels: each declared pair has the same results if both are the same bytes.

C++ kernels run as built, Triton kernels in Triton's interpreter. Captures disable in-place kernels, so that
every pair comes from the kernel and none from the capture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import inductor_frontend
from inductor_frontend import CaptureOptions
from tests.common.zoo import ZOO
from tests.models.inplace_runs import claimed_pairs, results, same_in_place
from tools.conformance.cases import list_cases, load_call, op_table, stratified
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ExecutionError

pytest.importorskip("triton", reason="Inductor writes Triton kernels only where triton is installed")

Function = Callable[..., Any]
Language = Literal["cpp", "triton"]
LANGUAGES: tuple[Language, ...] = ("cpp", "triton")


def captured(function: Function, args: Any, language: Language, kwargs: Any = None) -> Artifact:
    options = CaptureOptions(inplace_kernels=False, cpu_kernels=language)
    return inductor_frontend.capture(function, args, kwargs, options=options)


def pairs(artifact: Artifact) -> set[tuple[str, str]]:
    """The claimed pairs of all kernels, by their parameters' names."""
    return {
        (kernel.params[i].name, kernel.params[j].name)
        for kernel in artifact.program.kernels
        for i, j in claimed_pairs(kernel)
    }


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x * 2, -1)


def layer_norm(x: Tensor, y: Tensor) -> Tensor:
    return F.layer_norm(F.gelu(x + y), (x.shape[-1],))


def rows_and_sums(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    centred = x - x.mean(-1, keepdim=True)
    return centred * y, centred.square().sum(-1)


def strided(x: Tensor, y: Tensor) -> Tensor:
    return torch.sin(x.t()) * y.t()


LEGAL: dict[str, tuple[Function, int]] = {
    "softmax": (softmax, 1),
    "layer norm": (layer_norm, 2),
    "rows and sums": (rows_and_sums, 2),
    "strided": (strided, 2),
    "chain": (lambda x, w: torch.relu(torch.relu(x @ w) @ w), 2),
    "masked": (lambda x, y: torch.where(y > 0, x, x.exp()), 2),
    "accumulated": (lambda x, y: torch.cumsum(x + y, -1).neg(), 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", LEGAL)
def test_pairs_are_found_with_in_place_kernels_left_out(name: str, language: Language) -> None:
    function, count = LEGAL[name]
    args = tuple(torch.randn(48, 48) for _ in range(count))
    artifact = captured(function, args, language)
    assert pairs(artifact)
    assert same_in_place(artifact, args)


def broadcast(x: Tensor, y: Tensor) -> Tensor:
    return x + y[0]


def transposed(x: Tensor, y: Tensor) -> Tensor:
    return (x + y.t()).contiguous()


def shifted(x: Tensor, y: Tensor) -> Tensor:
    return x[:, :-1].contiguous() + y[:, 1:]


def reread(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x + 1, x * y


def row_of_sums(x: Tensor, y: Tensor) -> Tensor:
    return y[0] * x.sum(-1)


def gathered(x: Tensor, y: Tensor) -> Tensor:
    return x[y.argsort(-1)[:, 0]] * 2


def other_type(x: Tensor, y: Tensor) -> Tensor:
    return (x + y).view(torch.int32) * 2 + y.int()


class TestIllegal:
    """Pairs that are wrong for the kernel are not declared; `y` cannot be overwritten."""

    @pytest.mark.slow
    @pytest.mark.parametrize("language", LANGUAGES)
    @pytest.mark.parametrize("function", [broadcast, transposed, shifted, other_type, gathered])
    def test_other_indices(self, function: Function, language: Language) -> None:
        x, y = torch.randn(48, 48), torch.randn(48, 48)
        artifact = captured(function, (x, y), language)
        assert "y" not in given_in_pairs(artifact)
        same_in_place(artifact, (x, y))

    @pytest.mark.parametrize("language", LANGUAGES)
    def test_what_is_read_again_later(self, language: Language) -> None:
        """Both results need `x`: the first may not take its place."""
        x, y = torch.randn(48, 48), torch.randn(48, 48)
        artifact = captured(reread, (x, y), language)
        [kernel] = artifact.program.kernels
        first = next(p for p in kernel.params if p.access is ir.Access.WRITE)
        assert not first.may_alias
        same_in_place(artifact, (x, y))

    def test_a_row_that_several_warps_read_has_no_barrier(self) -> None:
        """A Triton kernel loads `y[0]` once per row of its block, in the warps that have the row, and
        Inductor writes a barrier before the store only if it works in place itself.

        The loop of C++ has one thread per row.
        """
        x, y = torch.randn(48, 48), torch.randn(48, 48)
        assert "y" not in given_in_pairs(captured(row_of_sums, (x, y), "triton"))
        plain = captured(row_of_sums, (x, y), "cpp")
        assert "y" in given_in_pairs(plain)
        same_in_place(plain, (x, y))

    def test_a_claim_that_is_wrong_is_noticed(self) -> None:
        """Of these very tests: a false pair changes results."""
        x, y = torch.randn(48, 48), torch.randn(48, 48)
        artifact = captured(transposed, (x, y), "cpp")

        def lied(kernel: ir.KernelDef) -> ir.KernelDef:
            written = {p.name for p in kernel.params if p.access is ir.Access.WRITE}
            return replace(
                kernel,
                params=tuple(
                    replace(p, may_alias=tuple(sorted(written)) if p.access is ir.Access.READ else ())
                    for p in kernel.params
                ),
            )

        program = replace(artifact.program, kernels=tuple(map(lied, artifact.program.kernels)))
        with pytest.raises(AssertionError, match="not equal"):
            same_in_place(replace(artifact, program=program), (x, y))


def given_in_pairs(artifact: Artifact) -> set[str]:
    """Returns names of the values that some launch passes to a parameter of a declared pair."""
    launches = [op for op in artifact.program.main.body if isinstance(op, ir.Launch)]
    return {
        value.name
        for op in launches
        for pair in claimed_pairs(artifact.program.kernel(op.kernel))
        for value in (op.args[pair[0]], op.args[pair[1]])
        if isinstance(value, ir.Value)
    }


def models(language: Language) -> list[Any]:  # Any: pytest's parameter sets
    quick = {"cpp": ["mlp"], "triton": ["gpt2"]}[language]
    rest = ["gpt2", "bert", "vit", "lstm", "t5", "llama", "resnet"]  # moe has no pair
    slow = [pytest.param(n, language, marks=pytest.mark.conformance) for n in rest if n not in quick]
    return [pytest.param(n, language) for n in quick] + slow


@pytest.mark.slow
@pytest.mark.parametrize(("name", "language"), [*models("cpp"), *models("triton")])
def test_models(name: str, language: Language) -> None:
    case = ZOO[name]()
    artifact = captured(case.model, case.args, language, case.kwargs)
    assert same_in_place(artifact, case.args, case.kwargs)


def operators(language: Language, count: int) -> tuple[int, int]:
    """Over a sample of torch's operator database: launches that were run in place, and operators that had
    any.
    """
    table = op_table()
    launches = found = 0
    for case in stratified(list_cases(table), count):
        torch._dynamo.reset()
        call = load_call(case, table)
        try:
            artifact = captured(call.function, call.inputs, language)
            results(artifact, call.inputs)
        except (inductor_frontend.CaptureError, RuntimeError, ExecutionError):
            continue  # the conformance page lists the refused operators; copies of inputs with gaps have none
        number = same_in_place(artifact, call.inputs)
        launches, found = launches + number, found + bool(number)
    return launches, found


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_operators(language: Language) -> None:
    launches, found = operators(language, 12)
    assert launches >= found >= 2


@pytest.mark.conformance
@pytest.mark.parametrize("language", LANGUAGES)
def test_many_operators(language: Language) -> None:
    launches, found = operators(language, 300)
    assert launches >= found >= 60
