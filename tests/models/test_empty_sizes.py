"""Sizes of 0 in captures that let sizes be empty, by every engine and form; and models that need elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import AdditionalInputs, Dim, ShapesCollection

import cpp_wrapper
import fx_converter
import py_wrapper
from cpp_wrapper import CppOptions
from fx_converter import FxOptions
from inductor_frontend import CaptureOptions, capture
from inductor_frontend.eager import eager_run
from py_wrapper import PyOptions
from tests.common.input_engines import Run, engines
from tests.common.symbol_runs import check_round_trips, runs_of, series
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ExecutionError
from wrapper_ir_passes.memory.plan_memory import PlanMemory

EMPTY = CaptureOptions(empty_sizes=True)
ROWS = Dim("rows", min=0)
Model = Callable[..., Any]

with torch.random.fork_rng():
    torch.manual_seed(0)
    LINEAR = nn.Linear(3, 4).requires_grad_(False)
    TABLE = nn.Embedding(7, 3).requires_grad_(False)


def reductions(x: Tensor) -> Any:
    return x.sum(0), x.mean(0), x.prod(0), (x > 0).all(), x.any(0), x.std(0), x.softmax(1), x.amax(1)


def layouts(x: Tensor) -> Any:
    """Operators that ask whether a tensor is empty, to copy less."""
    return x.t().contiguous() + 1, torch.cat([x, x]), torch.stack([x, x], 1), x.t().reshape(-1)


def layers(x: Tensor) -> Any:
    y = LINEAR(x).relu()
    heads = y.view(-1, 2, 1, 2)
    attention = nn.functional.scaled_dot_product_attention(heads, heads, heads)
    return (
        attention,
        nn.functional.layer_norm(x, (3,)),
        x.t() @ y,
        x @ x.t(),
        nn.functional.pad(x, (0, 0, 1, 1)),
    )


def written(x: Tensor) -> Any:
    return x.mul_(2).cumsum(0), torch.arange(x.shape[0]) * 2, x.shape[0], x.sum() / max(x.shape[0], 1)


def looked_up(x: Tensor) -> Any:
    indices = x[:, 0].abs().long().clamp(max=6)
    return TABLE(indices), x.nonzero(), torch.zeros(7).index_add(0, indices, x[:, 1])


def summed(x: Tensor) -> Any:
    return (x + 1).relu(), x.sum(0), x.softmax(1), torch.cat([x, x])


MODELS: list[Model] = [reductions, layouts, layers, written, looked_up]
models = pytest.mark.parametrize("model", MODELS, ids=[m.__name__ for m in MODELS])


def captured(model: Model, rows: object = ROWS, options: CaptureOptions = EMPTY) -> Artifact:
    with torch.no_grad():
        return capture(model, (series(5, 3),), dynamic_shapes=({0: rows},), options=options)


def same(run: Callable[..., Any], model: Model, *counts: int) -> None:
    for count in counts:
        wanted = model(series(count, 3))
        torch.testing.assert_close(run(series(count, 3)), wanted, equal_nan=True, check_stride=False)


def _persistent_and_cpp(artifact: Artifact, folder: Path) -> Iterator[tuple[str, Run]]:
    yield "python, persistent", py_wrapper.compile(artifact, PyOptions(persistent_buffers=True)).boxed
    yield "fx, persistent", fx_converter.compile(artifact, FxOptions(persistent_buffers=True)).boxed
    for persistent in (False, True):
        options = CppOptions(opt_level=0, persistent_buffers=persistent)
        library = cpp_wrapper.build(artifact, folder / f"library_{persistent}.so", options)
        yield f"cpp, persistent {persistent}", cpp_wrapper.load(library).boxed


@pytest.mark.slow
@models
def test_sizes_of_zero(model: Model) -> None:
    artifact = captured(model)
    assert [s.lower for s in artifact.program.symbols if s.backed] == [0]
    check_round_trips(artifact.program)
    for run in runs_of(artifact).values():
        same(run, model, 0, 2, 5, 0)


@pytest.mark.slow
@pytest.mark.parametrize("planned", [False, True])
@models
def test_every_engine(model: Model, planned: bool, tmp_path: Path) -> None:
    artifact = captured(model)
    if planned:
        artifact = dataclasses.replace(artifact, program=PlanMemory().run(artifact.program))
    runs = engines(artifact, tmp_path).items()
    for name, run in (*runs, *_persistent_and_cpp(artifact, tmp_path)):
        for count in (0, 3, 0, 5):
            found, wanted = run([series(count, 3)]), model(series(count, 3))
            if "model" not in name:  # a program returns what was written first, and no numbers
                found = found[-len(wanted) :]
            for a, b in zip(found, wanted, strict=True):
                torch.testing.assert_close(
                    a, b, equal_nan=True, check_stride=False, msg=f"{name}, {count} rows"
                )


@pytest.mark.slow
@pytest.mark.parametrize("rows", [ROWS, Dim("rows"), Dim("rows", max=9), Dim.DYNAMIC, Dim.AUTO], ids=str)
def test_every_kind_of_dimension(rows: object) -> None:
    for run in runs_of(captured(layouts, rows)).values():
        same(run, layouts, 0, 2, 5)


@pytest.mark.slow
def test_triton_kernels() -> None:
    """A kernel with an empty grid is not launched."""
    pytest.importorskip("triton")
    options = CaptureOptions(empty_sizes=True, cpu_kernels="triton")
    for run in runs_of(captured(summed, options=options)).values():
        same(run, summed, 0, 2, 5)


def test_an_empty_example() -> None:
    artifact = capture(lambda x: x + 1, (series(0, 3),), dynamic_shapes=({0: ROWS},), options=EMPTY)
    for run in runs_of(artifact).values():
        same(run, lambda x: x + 1, 0, 1, 4)


def test_several_sizes() -> None:
    def model(x: Tensor, y: Tensor) -> Any:
        return torch.cat([x, y]), x @ y.t(), x.sum() + y.sum()

    shapes = {0: Dim("a", min=0)}, {0: Dim("b", min=0)}
    artifact = capture(model, (series(5, 3), series(4, 3)), dynamic_shapes=shapes, options=EMPTY)
    for run in runs_of(artifact).values():
        for a, b in ((0, 4), (5, 0), (0, 0), (2, 3)):
            args = series(a, 3), series(b, 3)
            torch.testing.assert_close(run(*args), model(*args))


def asks_numel(x: Tensor) -> Tensor:
    return x.sum(0) + 7 if x.numel() == 0 else x.sum(0)


def asks_rows(x: Tensor) -> Tensor:
    return x.sum(0) if x.shape[0] else x.sum(0) + 7


def asks_order(x: Tensor) -> Tensor:
    return x.sum(0) + 7 if x.shape[0] < 1 else x.sum(0)


def asks_layout(x: Tensor) -> Tensor:
    return x.sum(0) + 7 if x.t().is_contiguous() else x.sum(0)


def mean_of_nothing(x: Tensor) -> Any:
    """Inductor's is 0, eager mode's NaN."""
    return torch.var_mean(x, 0)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [ROWS, Dim.DYNAMIC], ids=["named", "dynamic"])
@pytest.mark.parametrize("model", [asks_numel, asks_rows, asks_order, asks_layout, mean_of_nothing])
def test_models_that_do_something_else_for_nothing(model: Model, rows: object) -> None:
    """An answer that the trace took for granted would be wrong for empty tensors."""
    for run in runs_of(captured(model, rows)).values():
        same(run, model, 2, 5)
        with pytest.raises(ExecutionError, match="WIR920"):
            pytest.fail(f"gives {run(series(0, 3))}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["max", "min", "argmax", "amax", "cummax"])
def test_reductions_that_need_elements(name: str) -> None:
    def model(x: Tensor) -> Any:
        return tuple(getattr(x, name)(0)) if name in ("max", "min", "cummax") else getattr(x, name)(0)

    for run in runs_of(captured(model)).values():
        same(run, model, 2, 5)
        with pytest.raises(ExecutionError, match="WIR920"):
            pytest.fail(f"gives {run(series(0, 3))}")


def _collection(x: Tensor) -> Any:
    shapes: Any = ShapesCollection()  # type: ignore[no-untyped-call]  # torch leaves it so
    shapes[x] = {0: Dim.DYNAMIC(min=0)}
    return shapes


def _inputs(x: Tensor) -> Any:
    inputs: Any = AdditionalInputs()  # type: ignore[no-untyped-call]  # torch leaves it so
    inputs.add((series(0, 3),))
    inputs.add((series(7, 3),))
    return inputs


SPELLINGS: dict[str, Callable[[Tensor], Any]] = {
    "dynamic": lambda x: ({0: Dim.DYNAMIC(min=0)},),
    "auto": lambda x: ({0: Dim.AUTO(min=0, max=64)},),
    "by name": lambda x: {"x": (Dim.DYNAMIC(min=0), 3)},
    "collection": _collection,
    "inputs": _inputs,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_shapes_that_ask_for_empty_sizes(spelling: str) -> None:
    def model(x: Tensor) -> Any:
        return x + 1, x.sum(0), LINEAR(x)

    x = series(5, 3)
    artifact = capture(model, (x,), dynamic_shapes=SPELLINGS[spelling](x))
    for run in runs_of(artifact).values():
        same(run, model, 0, 1, 5, 7)


def test_shapes_that_do_not_ask_for_empty_sizes() -> None:
    x = series(5, 3)
    inputs: Any = AdditionalInputs()  # type: ignore[no-untyped-call]  # torch leaves it so
    inputs.add((series(7, 3),))
    for shapes in (({0: Dim.DYNAMIC(min=1)},), ({0: Dim.DYNAMIC},), ({0: ROWS},), inputs):
        artifact = capture(lambda x: x + 1, (x,), dynamic_shapes=shapes)
        with pytest.raises(ExecutionError, match="WIR920"):
            py_wrapper.compile(artifact)(series(0, 3))


def test_the_refusal_names_the_option() -> None:
    for rows in (ROWS, Dim.DYNAMIC):
        artifact = captured(lambda x: x + 1, rows, CaptureOptions())
        for run in runs_of(artifact).values():
            with pytest.raises(ExecutionError, match=r"WIR920.*size 0 of input x.*empty_sizes=True allows 0"):
                run(series(0, 3))
    artifact = captured(lambda x: x + 1, Dim("rows", min=2))
    for run in runs_of(artifact).values():
        with pytest.raises(ExecutionError, match=r"WIR920.*size 0 of input x is out of range: rows >= 2"):
            run(series(0, 3))


@pytest.mark.slow
def test_an_exported_program_has_decided() -> None:
    """Assumptions of torch's export cannot be undone; the original module can be captured again."""

    class Rows(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return layouts(x)

    exported = torch.export.export(Rows(), (series(5, 3),), dynamic_shapes=({0: Dim.DYNAMIC},))
    for run in runs_of(capture(exported, (), options=EMPTY)).values():
        same(run, layouts, 2, 5)
        with pytest.raises(ExecutionError, match=r"WIR920.*out of range"):
            run(series(0, 3))
    for run in runs_of(captured(exported.module(), Dim.DYNAMIC)).values():
        same(run, layouts, 0, 2, 5)


def test_eager_runs_take_the_same_graph() -> None:
    run = eager_run(layouts, (series(5, 3),), {}, dynamic_shapes=({0: ROWS},), options=EMPTY)
    assert list(run.values())
