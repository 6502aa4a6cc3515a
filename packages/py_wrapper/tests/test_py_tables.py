"""Completeness of the emitter's tables."""

from __future__ import annotations

from py_wrapper.emit.helpers import HELPERS, Helper
from wrapper_ir import ir
from wrapper_ir_torch import DTYPES, LAYOUTS, MEMORY_FORMATS


def test_every_helper_has_a_text() -> None:
    assert set(HELPERS) == set(Helper)


def test_native_tables_are_complete() -> None:
    assert set(DTYPES) == set(ir.DType)
    assert all(DTYPES[d].itemsize == d.itemsize for d in ir.DType)
    assert set(MEMORY_FORMATS) == set(ir.MemoryFormat)
    assert set(LAYOUTS) == set(ir.Layout)
