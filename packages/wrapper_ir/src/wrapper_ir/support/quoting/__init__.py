"""One function for each place where a program's text stands in other text.

`text_form` is the IR's own text; `python_code` and `cpp_code` are for emitters: every name, string and comment of a program
is any text at all (quotes, line breaks, NUL, lone surrogates), and none of it may become code.
"""

# Every module's own `__all__` says what is public; naming it here again would be a second list.
from wrapper_ir.escapes import *
from wrapper_ir.support.quoting.cpp_code import *
from wrapper_ir.support.quoting.names import *
from wrapper_ir.support.quoting.python_code import *
from wrapper_ir.support.quoting.text_form import *
