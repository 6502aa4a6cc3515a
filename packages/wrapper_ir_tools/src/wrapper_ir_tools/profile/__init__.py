"""Where the time of a program goes: measured op by op, as data, a table, a flame chart and tables of metrics."""

# Every module's own `__all__` says what is public; naming it here again would be a second list.
from wrapper_ir_tools.profile.files import *
from wrapper_ir_tools.profile.measure import *
from wrapper_ir_tools.profile.metrics import *
from wrapper_ir_tools.profile.result import *
from wrapper_ir_tools.profile.text import *
from wrapper_ir_tools.profile.timing import *
