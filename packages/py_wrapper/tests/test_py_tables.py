"""Tables of the emitter against what they must cover."""

from __future__ import annotations

from py_wrapper.emit.helpers import HELPERS, Helper
from py_wrapper.emit.table import WRITERS
from wrapper_ir.ir.types import DType, Layout, MemoryFormat
from wrapper_ir_lowering.steps import STEPS
from wrapper_ir_torch import DTYPES, LAYOUTS, MEMORY_FORMATS


def test_every_step_has_a_writer() -> None:
    assert set(WRITERS) == set(STEPS)


def test_writers_stand_in_the_file_of_their_steps_family() -> None:
    families = {step: step.__module__.rpartition(".")[2] for step in STEPS}
    assert families == {step: f.__module__.rpartition(".")[2] for step, f in WRITERS.items()}


def test_every_helper_has_a_text() -> None:
    assert set(HELPERS) == set(Helper)


def test_native_tables_are_complete() -> None:
    assert set(DTYPES) == set(DType)
    assert all(DTYPES[d].itemsize == d.itemsize for d in DType)
    assert set(MEMORY_FORMATS) == set(MemoryFormat)
    assert set(LAYOUTS) == set(Layout)
