"""Explains the origin of everything in a program and the decisions behind it, as data, text and JSON.

Names are imported on first use: compiling a program needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.support.lazy import loaded_on_use

if TYPE_CHECKING:
    from wrapper_ir_tools.explain.choices import choices_of
    from wrapper_ir_tools.explain.emitters import emitted_texts, explain_artifact
    from wrapper_ir_tools.explain.forms import explanation_data, explanation_json
    from wrapper_ir_tools.explain.lookup import QUERY_FORMS, find_ops, ops_by_source
    from wrapper_ir_tools.explain.model import (
        ExplainedFile,
        ExplainedKernel,
        ExplainedLine,
        ExplainedOp,
        Explanation,
        InPlace,
        Lead,
        Split,
    )
    from wrapper_ir_tools.explain.program import (
        ExplainOptions,
        explain_program,
        explained_file,
        program_sources,
    )
    from wrapper_ir_tools.explain.share import LineShare, line_share, share_text
    from wrapper_ir_tools.explain.text import explanation_text

__all__ = [
    "QUERY_FORMS",
    "ExplainOptions",
    "ExplainedFile",
    "ExplainedKernel",
    "ExplainedLine",
    "ExplainedOp",
    "Explanation",
    "InPlace",
    "Lead",
    "LineShare",
    "Split",
    "choices_of",
    "emitted_texts",
    "explain_artifact",
    "explain_program",
    "explained_file",
    "explanation_data",
    "explanation_json",
    "explanation_text",
    "find_ops",
    "line_share",
    "ops_by_source",
    "program_sources",
    "share_text",
]


_MODULES = {
    "choices": ("choices_of",),
    "emitters": ("emitted_texts", "explain_artifact"),
    "forms": ("explanation_data", "explanation_json"),
    "lookup": ("QUERY_FORMS", "find_ops", "ops_by_source"),
    "model": (
        "ExplainedFile",
        "ExplainedKernel",
        "ExplainedLine",
        "ExplainedOp",
        "Explanation",
        "InPlace",
        "Lead",
        "Split",
    ),
    "program": ("ExplainOptions", "explain_program", "explained_file", "program_sources"),
    "share": ("LineShare", "line_share", "share_text"),
    "text": ("explanation_text",),
}
"""The public names of each module."""

__getattr__, __dir__ = loaded_on_use(__name__, _MODULES)
