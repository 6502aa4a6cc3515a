"""Passes: pure functions from program to program, with options and a textual form."""

# Every module's own `__all__` says what is public; naming it here again would be a second list.
from wrapper_ir.passes.base import *
from wrapper_ir.passes.choices import *
from wrapper_ir.passes.collective_choices import *
from wrapper_ir.passes.dead_ops import *
from wrapper_ir.passes.debug_values import *
from wrapper_ir.passes.derive_frees import *
from wrapper_ir.passes.finite_checks import *
from wrapper_ir.passes.insert_checks import *
from wrapper_ir.passes.lower_collectives import *
from wrapper_ir.passes.move_arguments import *
from wrapper_ir.passes.move_device import *
from wrapper_ir.passes.pipeline import *
from wrapper_ir.passes.plan_memory import *
from wrapper_ir.passes.profile_ranges import *
from wrapper_ir.passes.register_buffers import *
from wrapper_ir.passes.registered_buffers import *
from wrapper_ir.passes.rename_groups import *
from wrapper_ir.passes.rename_symbols import *
from wrapper_ir.passes.reorder_for_memory import *
from wrapper_ir.passes.reuse_for_results import *
from wrapper_ir.passes.reuse_in_place import *
from wrapper_ir.passes.sink_waits import *
from wrapper_ir.passes.split_storages import *
from wrapper_ir.passes.strip import *
from wrapper_ir.passes.translation import *
from wrapper_ir.passes.tuning_programs import *
from wrapper_ir.passes.use_out_variants import *
