"""Runtime of emitted programs: kernels and constants of a module, calling conventions and run-time checks.

It does not depend on a tensor library. The emitted module passes the parts of the library that are used.

Names are imported on first use: emitted code needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.support.lazy import loaded_on_use

if TYPE_CHECKING:
    from wrapper_ir.analysis.input_facts import NumberInput, StorageInput, TensorInput
    from wrapper_ir.expr.arithmetic import int64, power
    from wrapper_ir.ir import SharedLeaf, SharedStorage, SubclassSpec
    from wrapper_ir.support.files import check_files
    from wrapper_ir_runtime.agreement import Agreement, GroupStore, agree
    from wrapper_ir_runtime.binding import Convention, literal, refuse_unsupported, signature_call
    from wrapper_ir_runtime.buffer_pool import BufferPool
    from wrapper_ir_runtime.caller import TorchCaller
    from wrapper_ir_runtime.debug import save_tensor, show_line, show_number, show_tensor
    from wrapper_ir_runtime.failures import (
        expect_class,
        expect_keys,
        expect_static,
        explain,
        fail_agreement,
        fail_assertion,
        fail_branch,
        fail_finite,
        fail_group,
        fail_layout,
        select_branch,
    )
    from wrapper_ir_runtime.graph_device import GraphDevice, Span
    from wrapper_ir_runtime.graph_replay import DeviceGraphs, GraphedFunction
    from wrapper_ir_runtime.groups import ProgramGroups, TorchGroups, check_rank
    from wrapper_ir_runtime.inputs import InputGuard, StorageGuard, check_inputs
    from wrapper_ir_runtime.kernels import FindRuntime, load_kernels
    from wrapper_ir_runtime.memory_pools import MEMORY_POOLS, MemoryPools, use_memory_pool
    from wrapper_ir_runtime.model_calls import coded_call, model_call
    from wrapper_ir_runtime.parameters import REQUIRED, fail_missing
    from wrapper_ir_runtime.parts import ModuleContents, open_parts
    from wrapper_ir_runtime.process_graphs import DEVICE_GRAPHS, ProcessGraphs
    from wrapper_ir_runtime.ranks import compare_ranks
    from wrapper_ir_runtime.results import check_apart, check_result, check_written
    from wrapper_ir_runtime.sharing import (
        apart_leaves,
        expect_apart,
        expect_same,
        gradient_leaves,
        refuse_gradient,
        shared_window,
    )
    from wrapper_ir_runtime.subclasses import Subclass
    from wrapper_ir_runtime.tracers import keep_from_dynamo, refuse_tracers
    from wrapper_ir_runtime.trees import (
        PytreeContainers,
        custom_container,
        dataclass_of,
        flatten,
        namedtuple_of,
        unflatten,
    )
    from wrapper_ir_runtime.watch import GROUP_WATCHES, GroupWatch, GroupWatches

__all__ = [
    "DEVICE_GRAPHS",
    "GROUP_WATCHES",
    "MEMORY_POOLS",
    "REQUIRED",
    "Agreement",
    "BufferPool",
    "Convention",
    "DeviceGraphs",
    "FindRuntime",
    "GraphDevice",
    "GraphedFunction",
    "GroupStore",
    "GroupWatch",
    "GroupWatches",
    "InputGuard",
    "MemoryPools",
    "ModuleContents",
    "NumberInput",
    "ProcessGraphs",
    "ProgramGroups",
    "PytreeContainers",
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
    "check_apart",
    "check_files",
    "check_inputs",
    "check_rank",
    "check_result",
    "check_written",
    "coded_call",
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
    "keep_from_dynamo",
    "literal",
    "load_kernels",
    "model_call",
    "namedtuple_of",
    "open_parts",
    "power",
    "refuse_gradient",
    "refuse_tracers",
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

_MODULES = {
    "agreement": ("Agreement", "GroupStore", "agree"),
    "binding": ("Convention", "literal", "refuse_unsupported", "signature_call"),
    "buffer_pool": ("BufferPool",),
    "caller": ("TorchCaller",),
    "debug": ("save_tensor", "show_line", "show_number", "show_tensor"),
    "failures": (
        "expect_class",
        "expect_keys",
        "expect_static",
        "explain",
        "fail_agreement",
        "fail_assertion",
        "fail_branch",
        "fail_finite",
        "fail_group",
        "fail_layout",
        "select_branch",
    ),
    "graph_device": ("GraphDevice", "Span"),
    "graph_replay": ("DeviceGraphs", "GraphedFunction"),
    "groups": ("ProgramGroups", "TorchGroups", "check_rank"),
    "inputs": ("InputGuard", "StorageGuard", "check_inputs"),
    "kernels": ("FindRuntime", "load_kernels"),
    "memory_pools": ("MEMORY_POOLS", "MemoryPools", "use_memory_pool"),
    "model_calls": ("coded_call", "model_call"),
    "parameters": ("REQUIRED", "fail_missing"),
    "parts": ("ModuleContents", "open_parts"),
    "process_graphs": ("DEVICE_GRAPHS", "ProcessGraphs"),
    "ranks": ("compare_ranks",),
    "results": ("check_apart", "check_result", "check_written"),
    "sharing": (
        "apart_leaves",
        "expect_apart",
        "expect_same",
        "gradient_leaves",
        "refuse_gradient",
        "shared_window",
    ),
    "subclasses": ("Subclass",),
    "tracers": ("keep_from_dynamo", "refuse_tracers"),
    "trees": (
        "PytreeContainers",
        "custom_container",
        "dataclass_of",
        "flatten",
        "namedtuple_of",
        "unflatten",
    ),
    "watch": ("GROUP_WATCHES", "GroupWatch", "GroupWatches"),
    "wrapper_ir.analysis.input_facts": ("NumberInput", "StorageInput", "TensorInput"),
    "wrapper_ir.expr.arithmetic": ("int64", "power"),
    "wrapper_ir.ir": ("SharedLeaf", "SharedStorage", "SubclassSpec"),
    "wrapper_ir.support.files": ("check_files",),
}
"""The public names of each module; a test compares them with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _MODULES)
