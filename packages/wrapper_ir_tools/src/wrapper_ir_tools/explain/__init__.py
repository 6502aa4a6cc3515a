"""Where everything in a program comes from, and why it is as it is: as data, text and JSON.

Names are loaded when they are first used: a program that is compiled needs few of them, and is seldom explained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.support.lazy import loaded_on_use

if TYPE_CHECKING:
    from wrapper_ir_tools.explain.choices import *
    from wrapper_ir_tools.explain.emitters import *
    from wrapper_ir_tools.explain.forms import *
    from wrapper_ir_tools.explain.lookup import *
    from wrapper_ir_tools.explain.model import *
    from wrapper_ir_tools.explain.program import *
    from wrapper_ir_tools.explain.share import *
    from wrapper_ir_tools.explain.text import *

_HOME = {
    "ExplainOptions": "program",
    "ExplainedFile": "model",
    "ExplainedKernel": "model",
    "ExplainedLine": "model",
    "ExplainedOp": "model",
    "Explanation": "model",
    "InPlace": "model",
    "Lead": "model",
    "LineShare": "share",
    "QUERY_FORMS": "lookup",
    "Split": "model",
    "choices_of": "choices",
    "emitted_texts": "emitters",
    "explain_artifact": "emitters",
    "explain_program": "program",
    "explained_file": "program",
    "explanation_data": "forms",
    "explanation_json": "forms",
    "explanation_text": "text",
    "find_ops": "lookup",
    "line_share": "share",
    "ops_by_source": "lookup",
    "program_sources": "program",
    "share_text": "share",
}
"""The module of each public name; a test compares them with what the modules say is public."""

__getattr__, __dir__ = loaded_on_use(__name__, _HOME)
