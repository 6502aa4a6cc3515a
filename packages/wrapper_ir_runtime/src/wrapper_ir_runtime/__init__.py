"""What emitted programs import: kernels and constants beside a module, calling conventions, run-time checks.

Needs no tensor library: the emitted module hands in what belongs to one.
"""

# `__all__` below names what is public; what modules export beyond it they export to each other.
from wrapper_ir.analysis.input_facts import NumberInput, StorageInput, TensorInput
from wrapper_ir.expr.arithmetic import int64, power
from wrapper_ir.ir.signature import SharedLeaf, SharedStorage, SubclassSpec
from wrapper_ir.support.files import check_files
from wrapper_ir_runtime.agreement import *
from wrapper_ir_runtime.argument_failures import *
from wrapper_ir_runtime.binding import *
from wrapper_ir_runtime.buffer_pool import *
from wrapper_ir_runtime.caller import *
from wrapper_ir_runtime.debug import *
from wrapper_ir_runtime.failures import *
from wrapper_ir_runtime.graph_device import *
from wrapper_ir_runtime.groups import *
from wrapper_ir_runtime.inputs import *
from wrapper_ir_runtime.kernels import *
from wrapper_ir_runtime.memory_pools import *
from wrapper_ir_runtime.parameters import *
from wrapper_ir_runtime.parts import *
from wrapper_ir_runtime.ranks import *
from wrapper_ir_runtime.recorders import *
from wrapper_ir_runtime.recording import *
from wrapper_ir_runtime.results import *
from wrapper_ir_runtime.sharing import *
from wrapper_ir_runtime.subclasses import *
from wrapper_ir_runtime.trees import *
from wrapper_ir_runtime.watch import *

__all__ = [
    "GROUP_WATCHES",
    "MEMORY_POOLS",
    "RECORDERS",
    "REQUIRED",
    "Agreement",
    "BufferPool",
    "Convention",
    "FindRuntime",
    "GraphDevice",
    "GroupStore",
    "GroupWatch",
    "GroupWatches",
    "InputGuard",
    "MemoryPools",
    "ModuleContents",
    "NumberInput",
    "ProgramGroups",
    "PytreeContainers",
    "Recorded",
    "Recorder",
    "Recorders",
    "SharedLeaf",
    "SharedStorage",
    "Span",
    "StorageGuard",
    "StorageInput",
    "Subclass",
    "SubclassSpec",
    "TensorInput",
    "TorchCaller",
    "TorchGroups",
    "agree",
    "apart_leaves",
    "check_files",
    "check_inputs",
    "check_rank",
    "check_result",
    "coded_arguments",
    "compare_ranks",
    "custom_container",
    "dataclass_of",
    "expect_apart",
    "expect_class",
    "expect_keys",
    "expect_same",
    "expect_static",
    "explain",
    "fail_agreement",
    "fail_assertion",
    "fail_branch",
    "fail_finite",
    "fail_group",
    "fail_layout",
    "fail_missing",
    "flatten",
    "gradient_leaves",
    "int64",
    "literal",
    "load_kernels",
    "namedtuple_of",
    "open_parts",
    "power",
    "refuse_gradient",
    "refuse_unsupported",
    "save_tensor",
    "select_branch",
    "shared_window",
    "show_line",
    "show_number",
    "show_tensor",
    "signature_call",
    "unflatten",
    "use_memory_pool",
]
