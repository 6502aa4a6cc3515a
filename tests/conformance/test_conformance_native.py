"""The tool that runs the operator database as native libraries."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tools.conformance.cases import CaseId
from tools.conformance.native import SIDES
from tools.conformance.native_library import tensor_of
from tools.conformance.sides import Result, render

LACKS = "native CPP502: [CPP502] the native runtime lacks 2 of the program's operators: aten::a.x (2 calls), aten::b"


def result(op: str, error: str) -> Result:
    return Result(SIDES.ours, CaseId(op, "float32", 0, 2026), error)


def test_refusals_are_listed_by_operator_and_reason() -> None:
    no_code = (
        "native ExecutionError: [WIR927] aten::b failed: the native operator has no code for element type c64"
    )
    text = render(
        SIDES,
        [
            result("add", ""),
            result("one", f"{LACKS} hint: give C++ sources"),
            result("two", LACKS),
            result("three", f"{no_code} at _b: b"),
            result("four", "native CPP502: [CPP502] the native runtime cannot call aten::c with these arguments func @main"),
            result("five", "native CPP503: [CPP503] the storage offset of input x is not what it was: inputs"),
            result("six", "capture FE101: [FE101] torch.export cannot trace f"),
            result("seven", "native CPP503: [CPP503] a | b"),
            result("eight", "native Mismatch: result 0"),
        ],
        9,
    )  # fmt: skip
    assert "| 9 | 1 | 11.1 % | 7 | 1 |" in text
    assert "| `eight float32 #0` | native Mismatch: result 0 |" in text
    rows = text.partition("## Refused by name")[2].strip().splitlines()[2:]
    assert rows == [
        "|  | a \\| b | `seven float32 #0` |",
        "|  | storage offsets of inputs | `five float32 #0` |",
        "|  | torch.export refuses the case | `six float32 #0` |",
        "| `aten::a.x` | not in the runtime | `one float32 #0`, `two float32 #0` |",
        "| `aten::b` | no code for element type c64 | `three float32 #0` |",
        "| `aten::b` | not in the runtime | `one float32 #0`, `two float32 #0` |",
        "| `aten::c` | arguments without a form in C | `four float32 #0` |",
    ]


def test_nothing_wrong_is_said() -> None:
    assert "## Wrong\n\nNone." in render(SIDES, [result("add", "")], 1)


def test_arrays_of_other_types_become_tensors() -> None:
    """Numpy has no DLPack form for types of ml_dtypes."""
    types = pytest.importorskip("ml_dtypes")
    expected = torch.tensor([[1.5, 2.0]], dtype=torch.bfloat16)
    torch.testing.assert_close(tensor_of(np.array([[1.5, 2.0]], types.bfloat16)), expected)
