"""Sizes of captured programs have the names that the user gave them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from inductor_frontend import capture
from tests.common.torch_versions import needs_any_slice
from wrapper_ir import parse_program, print_program, verify
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes.cleanup.rename_symbols import rename_symbols

X, Y = torch.randn(6, 8), torch.randn(5, 8)


def matmul(x: Tensor, y: Tensor) -> Tensor:
    return (x @ y.T).relu()


def nested(pairs: dict[str, list[Tensor]], *, scale: Tensor) -> Tensor:
    return pairs["a"][0] * scale + pairs["a"][1].sum()


def symbols(artifact: Artifact) -> list[str]:
    return [s.name for s in artifact.program.symbols]


# Any: the nested form that torch.export takes
@pytest.mark.parametrize(
    "shapes",
    [
        ({0: Dim("batch")}, {0: Dim("words")}),
        {"x": {0: Dim("batch")}, "y": (Dim("words"), None)},
        [(Dim("batch"), 8), {0: Dim("words")}],
    ],
    ids=["tuple", "dict", "list"],
)
def test_names_of_dims(shapes: Any) -> None:
    artifact = capture(matmul, (X, Y), dynamic_shapes=shapes)
    assert symbols(artifact) == ["batch", "words"]
    assert "%x: f32[batch, 8], %y: f32[words, 8]" in print_program(artifact.program)
    assert "s0" not in print_program(artifact.program).partition("func @main")[2]


def test_arguments_in_containers() -> None:
    n, m = Dim("n"), Dim("m")
    artifact = capture(
        nested,
        ({"a": [X, Y]},),
        {"scale": torch.randn(6, 1)},
        dynamic_shapes={"pairs": {"a": [{0: n}, {0: m}]}, "scale": {0: n}},
    )
    assert symbols(artifact)[:2] == ["n", "m"]


@pytest.mark.parametrize("shapes", [({0: Dim.AUTO}, {0: Dim.AUTO}), None], ids=["auto", "static"])
def test_sizes_without_a_name_keep_torchs(shapes: Any) -> None:
    assert all(name.startswith("s") for name in symbols(capture(matmul, (X, Y), dynamic_shapes=shapes)))


@needs_any_slice
def test_a_derived_size_is_said_by_its_base() -> None:
    half = Dim("half")
    artifact = capture(lambda x: x[::2] + 1, (torch.randn(12),), dynamic_shapes=({0: 2 * half},))
    assert "2*" in print_program(artifact.program)
    verify(artifact.program)


def test_names_can_be_exchanged() -> None:
    artifact = capture(matmul, (X, Y), dynamic_shapes=({0: Dim("batch")}, {0: Dim("words")}))
    names: Mapping[str, str] = {"batch": "words", "words": "batch"}
    swapped = rename_symbols(artifact.program, names)
    assert "%x: f32[words, 8], %y: f32[batch, 8]" in print_program(swapped)
    verify(swapped)
    assert parse_program(print_program(swapped)) == swapped
    assert rename_symbols(swapped, names) == artifact.program
    assert rename_symbols(artifact.program, {"other": "words"}) is artifact.program
