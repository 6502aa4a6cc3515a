"""Capture of buffers that Inductor places in symmetric memory, for an absent GPU and with a process group
whose other members do not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._inductor import config as inductor_config
from torch.distributed import _symmetric_memory as symmetric_memory
from torch.library import Library

import inductor_frontend
from inductor_frontend import CaptureError, ConversionError, HookError
from tests.collectives.collective_cases import GROUP, c10d, fake_group, funcol
from tests.common.torch_versions import golden_file
from wrapper_ir import check, ir, print_program
from wrapper_ir_passes import run_pipeline

GOLDEN = Path(__file__).parent / "golden"
GPU = "cuda:sm_90"
X, W = torch.randn(8, 8), torch.randn(8, 8)
symm_mem: Any = torch.ops.symm_mem  # torch leaves its operators untyped


@pytest.fixture(autouse=True)
def _symmetric() -> Iterator[None]:
    """Inductor finds symmetric memory, and may choose it."""
    # without a device, torch knows whether a group has it only in its own tests
    with symmetric_memory._test_mode(), inductor_config.patch({"_collective.auto_select": True}):
        yield


def capture(
    function: Callable[..., Any], *args: Tensor, rank: int = 0, target: str | None = GPU
) -> ir.Program:
    pytest.importorskip("triton", reason="Inductor writes Triton kernels only where triton is installed")
    with fake_group(rank=rank):
        return inductor_frontend.capture(function, args, target=target).program


def text_of(program: ir.Program) -> str:
    """Returns the function's text without input checks and provenance, with ids relative to the first."""
    text = print_program(program)
    body = text[text.index("func @main") : text.index("provenance")].splitlines()
    lines = [line.partition("  #")[0] for line in body if "assert_layout" not in line]
    ids = ids_of(program)
    found = "\n".join(lines).rstrip() + "\n"
    for id in ids:
        found = found.replace(str(id), f"id + {id - min(ids)}")
    return found


def ids_of(program: ir.Program) -> list[int]:
    types = [op.result.type for op in program.ops if isinstance(op, ir.AllocStorage)]
    return [t.space.alloc_id for t in types if t.is_symmetric]


def two_sums(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of a matmul's result, which an operator writes, and of a kernel's."""
    first = funcol.all_reduce(x @ w, "sum", GROUP)
    second = funcol.all_reduce(first.relu() + 1, "sum", GROUP)
    return second * 2, first


def of_an_input(x: Tensor, w: Tensor) -> Tensor:
    """An input is copied to symmetric memory: its own memory is unknown."""
    y: Tensor = funcol.all_reduce(x, "sum", GROUP)
    return y + w


def returned(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The summed buffer is also an output, and is returned as a copy."""
    y = x + w
    return y, funcol.all_reduce(y, "sum", GROUP)


def used_later(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Used by a kernel that could work in place in other memory."""
    y = x @ w
    return funcol.all_reduce(y, "sum", GROUP), y.relu()


def large(x: Tensor, w: Tensor) -> Tensor:
    """Larger than Inductor's limit: the library sums it."""
    y: Tensor = funcol.all_reduce(x.repeat(100, 100) + 1, "sum", GROUP)
    return y


MODELS = (two_sums, of_an_input, returned)


@pytest.mark.skipif(
    torch.__version__.startswith("2.11."),
    reason="torch 2.11 has sums in symmetric memory allocate their result",
)
@pytest.mark.parametrize("model", MODELS)
def test_golden(model: Callable[..., Any], update_golden: bool) -> None:
    program = capture(model, X, W)
    assert not check(program)
    path = golden_file(GOLDEN / f"comm_buffers_{model.__name__}.wir.txt")
    text = text_of(program)
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("model", "count"), [(two_sums, 2), (of_an_input, 0), (returned, 1), (used_later, 1)]
)
def test_each_sum_has_a_buffer_that_stays_inside(model: Callable[..., Any], count: int) -> None:
    program = capture(model, X, W)
    assert not check(program)
    sums = [op for op in program.ops if isinstance(op, ir.CallExtern) and op.target.startswith("symm_mem::")]
    assert len(sums) == len(ids_of(program)) == count
    assert ("copy" in text_of(program)) == (model is returned)


def test_ids_are_equal_on_all_ranks_and_differ_between_programs() -> None:
    """Inductor draws them at random."""
    first = ids_of(capture(two_sums, X, W))
    assert len({*first}) == 2
    assert first == ids_of(capture(two_sums, X, W, rank=1))
    assert not {*first} & {*ids_of(capture(of_an_input, X, W))}
    assert all(0 < id < 1 << 63 for id in first)


def test_they_are_planned_as_other_symmetric_memory() -> None:
    planned = run_pipeline(capture(two_sums, X, W), "plan-memory")
    assert len(ids_of(planned)) == 1
    slots = [op.result.type for op in planned.ops if isinstance(op, ir.Slot)]
    assert [str(t.nbytes) for t in slots if t.is_symmetric] == ["256", "256"]


def test_what_inductor_leaves_to_the_library() -> None:
    program = capture(large, X, W)
    assert ids_of(program) == []
    assert [op.target for op in program.ops if isinstance(op, ir.CollectiveStart)] == [
        "_c10d_functional::all_reduce_"
    ]


def test_lower_collectives_leaves_them_alone() -> None:
    """No choice remains."""
    program = capture(two_sums, X, W)
    assert ids_of(run_pipeline(program, "lower-collectives")) == ids_of(program)


def test_operators_over_symmetric_memory_that_the_model_calls() -> None:
    def model(x: Tensor, w: Tensor) -> Any:
        y: Tensor = symm_mem.one_shot_all_reduce(x @ w, "sum", GROUP)
        return y + 1

    program = capture(model, X, W)
    assert len(ids_of(program)) == 1
    assert [op.target for op in program.ops if isinstance(op, ir.CallExtern) and "symm_mem" in op.target]


@pytest.mark.skipif(
    torch.__version__.startswith("2.11."), reason="torch 2.11 calls it without telling when it is done"
)
def test_gathers_by_the_copy_engines_are_collectives() -> None:
    def model(x: Tensor, w: Tensor) -> Any:
        return c10d.wait_tensor(symm_mem._low_contention_all_gather(x + w, GROUP)) + 1

    program = capture(model, X, W)
    (start,) = (op for op in program.ops if isinstance(op, ir.CollectiveStart))
    assert start.target == "symm_mem::_low_contention_all_gather"
    assert [op for op in program.ops if isinstance(op, ir.Wait)]


class TestRefusals:
    def test_the_cpu_has_no_symmetric_memory(self) -> None:
        with pytest.raises(HookError, match=r"FE202.*communication buffer of group '0' on cpu") as caught:
            capture(two_sums, X, W, target=None)
        assert "auto_select off" in str(caught.value)

    @pytest.fixture
    def fake_kernel(self) -> Iterator[None]:
        """The operator cannot be traced without a fake kernel, which torch lacks."""
        library = Library("symm_mem", "IMPL")  # type: ignore[no-untyped-call]  # torch's, as below
        library.impl("multimem_one_shot_all_reduce", lambda x, op, group: torch.empty_like(x), "Meta")  # type: ignore[no-untyped-call]
        yield
        library._destroy()  # type: ignore[no-untyped-call]

    def test_multicast(self, fake_kernel: None) -> None:
        def model(x: Tensor, w: Tensor) -> Any:
            return symm_mem.multimem_one_shot_all_reduce(x + w, "sum", GROUP)

        with pytest.raises(
            ConversionError, match=r"FE310.*multimem_one_shot_all_reduce.* needs a multicast object"
        ) as caught:
            capture(model, X, W)
        assert "two_shot_all_reduce" in str(caught.value)

    def test_sizes_that_a_run_knows(self) -> None:
        """Inductor itself refuses them."""
        pytest.importorskip("triton", reason="Inductor writes Triton kernels only where triton is installed")
        dim = torch.export.Dim("rows", min=2, max=64)
        with fake_group(), pytest.raises(CaptureError, match="FE104") as caught:
            inductor_frontend.capture(two_sums, (X, W), dynamic_shapes=({0: dim}, None), target=GPU)
        assert "auto_select off" in str(caught.value)
