"""Passes: pure functions from program to program, with options and a textual form.

Most names are loaded when they are first used: a program that is compiled needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lazy import loaded_on_use

# A module that has the name of its function would hide it, were it imported later.
from wrapper_ir.passes.collective_choices import *
from wrapper_ir.passes.derive_frees import *
from wrapper_ir.passes.insert_checks import *
from wrapper_ir.passes.move_arguments import *
from wrapper_ir.passes.rename_groups import *
from wrapper_ir.passes.rename_symbols import *
from wrapper_ir.passes.tuning_programs import *

if TYPE_CHECKING:
    from wrapper_ir.passes.base import *
    from wrapper_ir.passes.choices import *
    from wrapper_ir.passes.dead_ops import *
    from wrapper_ir.passes.debug_values import *
    from wrapper_ir.passes.finite_checks import *
    from wrapper_ir.passes.lower_collectives import *
    from wrapper_ir.passes.move_device import *
    from wrapper_ir.passes.pipeline import *
    from wrapper_ir.passes.plan_memory import *
    from wrapper_ir.passes.profile_ranges import *
    from wrapper_ir.passes.register_buffers import *
    from wrapper_ir.passes.registered_buffers import *
    from wrapper_ir.passes.reorder_for_memory import *
    from wrapper_ir.passes.reuse_for_results import *
    from wrapper_ir.passes.reuse_in_place import *
    from wrapper_ir.passes.sink_waits import *
    from wrapper_ir.passes.split_storages import *
    from wrapper_ir.passes.strip import *
    from wrapper_ir.passes.translation import *
    from wrapper_ir.passes.use_out_variants import *

_HOME = {
    "BufferChoice": "registered_buffers",
    "CollectiveBuffers": "registered_buffers",
    "DebugLevel": "debug_values",
    "DebugValues": "debug_values",
    "Difference": "translation",
    "EliminateDeadOps": "dead_ops",
    "InsertFiniteChecks": "finite_checks",
    "LowerCollectives": "lower_collectives",
    "MEMORY_PASSES": "pipeline",
    "MoveDevice": "move_device",
    "OUT_VARIANTS": "registered_buffers",
    "PASSES": "pipeline",
    "Pass": "base",
    "PlanMemory": "plan_memory",
    "ProfileRanges": "profile_ranges",
    "RegisterBuffers": "register_buffers",
    "RegistrationLimits": "registered_buffers",
    "ReorderForMemory": "reorder_for_memory",
    "ReuseForResults": "reuse_for_results",
    "ReuseInPlace": "reuse_in_place",
    "SinkWaits": "sink_waits",
    "SplitStorages": "split_storages",
    "StripAsserts": "strip",
    "StripDebug": "strip",
    "UseOutVariants": "use_out_variants",
    "check_translation": "translation",
    "collective_buffers": "registered_buffers",
    "compare": "translation",
    "describe_passes": "pipeline",
    "devices_of": "move_device",
    "option_name": "base",
    "parse_pipeline": "pipeline",
    "print_pipeline": "pipeline",
    "registration_totals": "registered_buffers",
    "run_on_artifact": "pipeline",
    "run_pipeline": "pipeline",
    "with_choices": "choices",
    "without_unused_definitions": "dead_ops",
}
"""The module of each public name; a test compares them with what the modules say is public."""

__getattr__, __dir__ = loaded_on_use(__name__, _HOME)
