"""Kernel definitions as typed data.

A definition holds all that a runtime needs to compile and launch: nothing is looked up elsewhere. Its identity is
`wrapper_ir.json.kernel_hash.content_hash`, a hash over everything but the name.
"""

# Every module's own `__all__` says what is public; naming it here again would be a second list.
from wrapper_ir.ir.kernels.binary import *
from wrapper_ir.ir.kernels.compiled import *
from wrapper_ir.ir.kernels.constants import *
from wrapper_ir.ir.kernels.definition import *
from wrapper_ir.ir.kernels.host import *
from wrapper_ir.ir.kernels.multi import *
from wrapper_ir.ir.kernels.params import *
from wrapper_ir.ir.kernels.sources import *
from wrapper_ir.ir.kernels.triton import *
