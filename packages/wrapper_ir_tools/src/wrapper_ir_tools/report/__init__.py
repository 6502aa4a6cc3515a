"""What a program holds, and when: as data, text, a page, a picture and a table."""

# Every module's own `__all__` says what is public; naming it here again would be a second list.
from wrapper_ir_tools.report.files import *
from wrapper_ir_tools.report.memory import *
from wrapper_ir_tools.report.savings import *
from wrapper_ir_tools.report.text import *
