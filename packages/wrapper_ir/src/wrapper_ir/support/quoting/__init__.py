"""Quoting of a program's names, strings and comments, one function per context.

`text_form` is for the IR's text, `python_code` and `cpp_code` are for emitters. Texts of a program are
arbitrary (quotes, line breaks, NUL, lone surrogates), and none of them may become code.
"""

from wrapper_ir.escapes import escape, printable, terminal_text
from wrapper_ir.support.quoting.cpp_code import (
    cpp_block_comment,
    cpp_identifier,
    cpp_line_comment,
    cpp_message,
    cpp_names,
    cpp_string,
    is_cpp_name,
)
from wrapper_ir.support.quoting.names import Namer, ascii_identifier
from wrapper_ir.support.quoting.python_code import (
    is_python_name,
    python_attribute,
    python_comment,
    python_docstring,
    python_identifier,
    python_keyword,
    python_names,
    python_string,
)
from wrapper_ir.support.quoting.text_form import (
    plain_name,
    quote,
    symbol_name,
    target_name,
    unquote,
    value_name,
)

__all__ = [
    "Namer",
    "ascii_identifier",
    "cpp_block_comment",
    "cpp_identifier",
    "cpp_line_comment",
    "cpp_message",
    "cpp_names",
    "cpp_string",
    "escape",
    "is_cpp_name",
    "is_python_name",
    "plain_name",
    "printable",
    "python_attribute",
    "python_comment",
    "python_docstring",
    "python_identifier",
    "python_keyword",
    "python_names",
    "python_string",
    "quote",
    "symbol_name",
    "target_name",
    "terminal_text",
    "unquote",
    "value_name",
]
