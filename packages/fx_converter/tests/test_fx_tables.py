"""Completeness of the converter's tables."""

from __future__ import annotations

import torch

from fx_converter import targets
from fx_converter.graph.numbers import CALLS
from fx_converter.saving.functions import FUNCTIONS_BY_NAME, NAMES_OF_FUNCTIONS
from wrapper_ir import ir
from wrapper_ir.expr.operators import CEILDIV, OPERATORS
from wrapper_ir_torch import DTYPES


def test_every_function_of_numbers_is_there() -> None:
    assert set(CALLS) == set(OPERATORS.rows) - {CEILDIV}
    assert set(DTYPES) == set(ir.DType)


def test_files_can_name_what_graphs_call() -> None:
    assert set(CALLS.values()) <= set(NAMES_OF_FUNCTIONS)
    assert {getattr(targets, name) for name in targets.__all__} <= set(NAMES_OF_FUNCTIONS)
    assert all(FUNCTIONS_BY_NAME[name] is f for f, name in NAMES_OF_FUNCTIONS.items())


def test_files_cannot_name_what_loads_or_runs_text() -> None:
    assert not {torch.load, exec, eval, open, __import__} & set(NAMES_OF_FUNCTIONS)
