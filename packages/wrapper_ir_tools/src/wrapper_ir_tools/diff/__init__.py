"""Compares two programs by structure: added, removed and changed ops."""

from wrapper_ir_tools.diff.pairs import LinePair, pair_lines
from wrapper_ir_tools.diff.parts import ProgramPart, program_parts
from wrapper_ir_tools.diff.unified import diff_programs

__all__ = ["LinePair", "ProgramPart", "diff_programs", "pair_lines", "program_parts"]
