"""Lexer and cursor of the text form, the layer below the parsers of expressions, types and programs."""

from wrapper_ir.support.tokens.cursor import MAX_DEPTH, Cursor
from wrapper_ir.support.tokens.lexer import BLOCK, Source, kind_of

__all__ = ["BLOCK", "MAX_DEPTH", "Cursor", "Source", "kind_of"]
