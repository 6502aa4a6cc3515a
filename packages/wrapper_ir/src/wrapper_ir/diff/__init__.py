"""Compares two programs by structure: what was added, removed or changed, op by op."""

from wrapper_ir.diff.pairs import LinePair, pair_lines
from wrapper_ir.diff.parts import ProgramPart, program_parts
from wrapper_ir.diff.unified import diff_programs

__all__ = ["LinePair", "ProgramPart", "diff_programs", "pair_lines", "program_parts"]
