"""One function for each place where a program's text stands in other text.

`text_form` is the IR's own text; `python_code` and `cpp_code` are for emitters: every name, string and comment of a program
is any text at all (quotes, line breaks, NUL, lone surrogates), and none of it may become code.
"""

from __future__ import annotations

from wrapper_ir.quoting.cpp_code import (
    cpp_block_comment,
    cpp_identifier,
    cpp_line_comment,
    cpp_message,
    cpp_names,
    cpp_string,
    is_cpp_name,
)
from wrapper_ir.quoting.names import Namer, ascii_identifier
from wrapper_ir.quoting.python_code import (
    is_python_name,
    python_attribute,
    python_comment,
    python_docstring,
    python_identifier,
    python_keyword,
    python_names,
    python_string,
)
from wrapper_ir.quoting.text_form import (
    plain_name,
    printable,
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
    "unquote",
    "value_name",
]
