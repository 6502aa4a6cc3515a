"""A program as a page for a browser: its text beside the model's source, kernels, data flow, memory, and what a run left."""

# Every module's own `__all__` says what is public; naming it here again would be a second list.
from wrapper_ir_tools.view.model import *
from wrapper_ir_tools.view.page import *
from wrapper_ir_tools.view.program import *
from wrapper_ir_tools.view.run import *
from wrapper_ir_tools.view.sources import *
