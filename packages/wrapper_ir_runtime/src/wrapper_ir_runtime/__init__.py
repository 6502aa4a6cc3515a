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

_HOME = {
    "DEVICE_GRAPHS": "process_graphs",
    "GROUP_WATCHES": "watch",
    "MEMORY_POOLS": "memory_pools",
    "REQUIRED": "parameters",
    "Agreement": "agreement",
    "BufferPool": "buffer_pool",
    "Convention": "binding",
    "DeviceGraphs": "graph_replay",
    "FindRuntime": "kernels",
    "GraphDevice": "graph_device",
    "GraphedFunction": "graph_replay",
    "GroupStore": "agreement",
    "GroupWatch": "watch",
    "GroupWatches": "watch",
    "InputGuard": "inputs",
    "MemoryPools": "memory_pools",
    "ModuleContents": "parts",
    "NumberInput": "wrapper_ir.analysis.input_facts",
    "ProcessGraphs": "process_graphs",
    "ProgramGroups": "groups",
    "PytreeContainers": "trees",
    "SharedLeaf": "wrapper_ir.ir",
    "SharedStorage": "wrapper_ir.ir",
    "Span": "graph_device",
    "StorageGuard": "inputs",
    "StorageInput": "wrapper_ir.analysis.input_facts",
    "Subclass": "subclasses",
    "SubclassSpec": "wrapper_ir.ir",
    "TensorInput": "wrapper_ir.analysis.input_facts",
    "TorchCaller": "caller",
    "TorchGroups": "groups",
    "agree": "agreement",
    "apart_leaves": "sharing",
    "check_apart": "results",
    "check_files": "wrapper_ir.support.files",
    "check_inputs": "inputs",
    "check_rank": "groups",
    "check_result": "results",
    "check_written": "results",
    "coded_call": "model_calls",
    "compare_ranks": "ranks",
    "custom_container": "trees",
    "dataclass_of": "trees",
    "expect_apart": "sharing",
    "expect_class": "failures",
    "expect_keys": "failures",
    "expect_same": "sharing",
    "expect_static": "failures",
    "explain": "failures",
    "fail_agreement": "failures",
    "fail_assertion": "failures",
    "fail_branch": "failures",
    "fail_finite": "failures",
    "fail_group": "failures",
    "fail_layout": "failures",
    "fail_missing": "parameters",
    "flatten": "trees",
    "gradient_leaves": "sharing",
    "int64": "wrapper_ir.expr.arithmetic",
    "keep_from_dynamo": "tracers",
    "literal": "binding",
    "load_kernels": "kernels",
    "model_call": "model_calls",
    "namedtuple_of": "trees",
    "open_parts": "parts",
    "power": "wrapper_ir.expr.arithmetic",
    "refuse_gradient": "sharing",
    "refuse_tracers": "tracers",
    "refuse_unsupported": "binding",
    "save_tensor": "debug",
    "select_branch": "failures",
    "shared_window": "sharing",
    "show_line": "debug",
    "show_number": "debug",
    "show_tensor": "debug",
    "signature_call": "binding",
    "unflatten": "trees",
    "use_memory_pool": "memory_pools",
}
"""The module of each public name; a test compares the keys with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _HOME)
