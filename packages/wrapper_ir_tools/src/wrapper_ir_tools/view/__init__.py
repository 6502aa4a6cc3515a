"""Shows a program as a page in a browser: text and source, kernels, data flow, memory, and the data of a
run."""

from wrapper_ir_tools.view.model import (
    Edge,
    FunctionView,
    Group,
    KernelView,
    MemoryView,
    OpTime,
    ProgramView,
    Role,
    Row,
    SavedValue,
    SourceFile,
    SourceSegment,
    StorageView,
    ValueUse,
)
from wrapper_ir_tools.view.page import diff_html, view_html, view_json
from wrapper_ir_tools.view.program import ViewOptions, view_program
from wrapper_ir_tools.view.run import read_profile, read_saved_values
from wrapper_ir_tools.view.sources import SourceOptions, read_sources

__all__ = [
    "Edge",
    "FunctionView",
    "Group",
    "KernelView",
    "MemoryView",
    "OpTime",
    "ProgramView",
    "Role",
    "Row",
    "SavedValue",
    "SourceFile",
    "SourceOptions",
    "SourceSegment",
    "StorageView",
    "ValueUse",
    "ViewOptions",
    "diff_html",
    "read_profile",
    "read_saved_values",
    "read_sources",
    "view_html",
    "view_json",
    "view_program",
]
