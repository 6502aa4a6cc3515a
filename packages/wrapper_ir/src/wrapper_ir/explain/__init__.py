"""Where everything in a program comes from, and why it is as it is: as data, text and JSON."""

# Every module's own `__all__` says what is public; naming it here again would be a second list.
from wrapper_ir.explain.choices import *
from wrapper_ir.explain.emitters import *
from wrapper_ir.explain.forms import *
from wrapper_ir.explain.lookup import *
from wrapper_ir.explain.model import *
from wrapper_ir.explain.program import *
from wrapper_ir.explain.share import *
from wrapper_ir.explain.text import *
