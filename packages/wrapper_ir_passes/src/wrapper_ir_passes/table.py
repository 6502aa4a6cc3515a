"""The table of passes: names and classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from wrapper_ir.plugins.passes import Pass

_CLASSES: Mapping[str, str] = {
    "attention-kernels": "devices.attention_kernels.AttentionKernels",
    "cuda-graphs": "devices.cuda_graphs.CudaGraphs",
    "debug-values": "debug.debug_values.DebugValues",
    "derive-frees": "cleanup.derive_frees.DeriveFrees",
    "eliminate-dead-ops": "cleanup.dead_ops.EliminateDeadOps",
    "insert-checks": "debug.insert_checks.InsertChecks",
    "insert-finite-checks": "debug.finite_checks.InsertFiniteChecks",
    "lower-collectives": "collectives.lower_collectives.LowerCollectives",
    "matmul-kernels": "devices.matmul_kernels.MatmulKernels",
    "move-arguments": "cleanup.move_arguments.MoveArguments",
    "move-device": "devices.move_device.MoveDevice",
    "pack-constants": "packing.pack_constants.PackConstants",
    "plan-memory": "memory.plan_memory.PlanMemory",
    "profile-ranges": "debug.profile_ranges.ProfileRanges",
    "register-buffers": "collectives.register_buffers.RegisterBuffers",
    "reorder-for-memory": "memory.reorder_for_memory.ReorderForMemory",
    "reuse-for-results": "memory.reuse_for_results.ReuseForResults",
    "reuse-in-place": "memory.reuse_in_place.ReuseInPlace",
    "sink-waits": "collectives.sink_waits.SinkWaits",
    "split-storages": "memory.split_storages.SplitStorages",
    "strip-asserts": "cleanup.strip.StripAsserts",
    "strip-debug": "cleanup.strip.StripDebug",
    "unpack-constants": "packing.unpack_constants.UnpackConstants",
    "use-out-variants": "memory.use_out_variants.UseOutVariants",
}
"""The class of each pass, relative to this package; classes are imported on demand."""


class _Passes(Mapping[str, type[Pass]]):
    """The classes by name, each imported at its first lookup."""

    def __getitem__(self, name: str) -> type[Pass]:
        module, _, attribute = _CLASSES[name].rpartition(".")
        cls: type[Pass] = getattr(import_module(f"{__package__}.{module}"), attribute)  # by the table
        return cls

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


PASSES: Mapping[str, type[Pass]] = _Passes()
"""All passes by name."""

MEMORY_PASSES = (
    "use-out-variants,split-storages,reorder-for-memory,reuse-in-place,plan-memory,reuse-for-results"
)
"""All passes that reduce memory, in the order in which each helps those after it."""
