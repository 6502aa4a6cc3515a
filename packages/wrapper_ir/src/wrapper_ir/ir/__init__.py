"""The program model: types, values, kernels, ops, functions, and the calling convention around them.

The face of the folder: `from wrapper_ir import ir`, then `ir.CallExtern`. One line a family, packed by hand.
"""

# ruff: noqa: I001
# fmt: off
from wrapper_ir.ir.atoms import (
    DIM_ATOMS, NODE_TYPES, VALUE_ATOMS, AtomParser, DimAtom, Item, Node, OffsetOf, SizeOf, StrideOf,
    ValueAtom, free_values, item_values, map_expr_values, parse_expr, values_in,
)
from wrapper_ir.ir.guarded import NOT_GUARDED, Guarded
from wrapper_ir.ir.kernels.binary import KernelBinary
from wrapper_ir.ir.kernels.compiled import (
    DriverParam, DriverParamKind, ImageKind, LaunchFacts, Scratch, TensorMap,
)
from wrapper_ir.ir.kernels.constants import ConstantValue, ScalarConstant, constant_fault
from wrapper_ir.ir.kernels.definition import KernelDef, needed, runtime_kind
from wrapper_ir.ir.kernels.host import CppKernel, CppSource, ForeignKernel
from wrapper_ir.ir.kernels.multi import (
    Choice, MultiKernel, OperatorConstant, OperatorKernel, Variant, merged_access,
)
from wrapper_ir.ir.kernels.params import Access, KernelAccess, KernelParam, ParamKind, Requirement
from wrapper_ir.ir.kernels.sources import source_of, source_suffix, with_source
from wrapper_ir.ir.kernels.triton import (
    MAX_GRID, Derivation, KernelNames, TritonConfig, TritonKernel, bound_grid, kernel_symbols,
)
from wrapper_ir.ir.layout import (
    contiguous_strides, exact_quotient, extent_bytes, extent_elements, is_contiguous, is_layout_extent,
    may_have_item, numel, remainder, slot_alignment, type_symbols,
)
from wrapper_ir.ir.ops import (
    OPS, Allocation, CallingOp, EndOp, ForeignMemory, Op, OperatorCall, OutsideCall,
)
from wrapper_ir.ir.ops.base import UNKNOWN, Arg, Complex, Def, OpBase, Provenance, Role, Use, Uses
from wrapper_ir.ir.ops.call_effects import call_effects
from wrapper_ir.ir.ops.check import AssertExpr, AssertFinite, AssertLayout, CheckOp, asserted_layouts
from wrapper_ir.ir.ops.collective import CollectiveOp, CollectiveStart, Wait
from wrapper_ir.ir.ops.control import CallSubgraph, ControlOp, Return, Switch, WhileLoop, is_two_way
from wrapper_ir.ir.ops.debug import Comment, DebugMode, DebugOp, DebugPhase, DebugValue
from wrapper_ir.ir.ops.effects import (
    EffectClass, EffectContext, EffectSpec, Effects, FunctionSummary, ResultOrigin, fresh, reads,
)
from wrapper_ir.ir.ops.kernel import CallExtern, KernelOp, Launch, Unpack
from wrapper_ir.ir.ops.memory import (
    AllocPurpose, AllocStorage, Copy, Drop, EnsureAligned, Free, MemoryOp, ResizeStorage, SetStorage, Slot,
    ZeroMode,
)
from wrapper_ir.ir.ops.placement import Barrier, PlacementOp, RecordEvent, SyncEvent, WaitEvent
from wrapper_ir.ir.ops.scope import MAX_SCOPES, EnterMemoryPool, EnterProfile, ExitScope, ScopeOp
from wrapper_ir.ir.ops.spec import (
    FieldSpec, OpSet, OpSpec, Shape, describe, fields_of, is_enum, misfit, op_spec, per_class, tag_of,
)
from wrapper_ir.ir.ops.symbolic import Define
from wrapper_ir.ir.ops.view import View, ViewMode
from wrapper_ir.ir.packing import PANEL, PackedLayout, Packing, Panels
from wrapper_ir.ir.program import (
    Constant, ConstantKind, Function, Ownership, Param, Program, SymbolDef, Target,
)
from wrapper_ir.ir.schemas import (
    ExternDef, ExternInfo, ExternTag, OpSchema, SchemaArg, SchemaReturn, overload_path, parse_schema,
    require_effects,
)
from wrapper_ir.ir.signature import (
    ConstantOutput, InputOutput, InputView, OutputBinding, Parameter, ParameterKind, RandomSource,
    RandomState, ResultOutput, ResultView, SameTensor, SharedLeaf, SharedStorage, Signature, StaticInput,
    SubclassSpec, TreeKind, TreeSpec, Unwrap, WrappedOutput, WriteBack, WriteBackKind,
)
from wrapper_ir.ir.structure import (
    call_args, callee_name, callees, callees_first, calling_ops, definitions, exprs, is_used, map_function,
    map_values, operands, results,
)
from wrapper_ir.ir.types import (
    CPU, DEFAULT_ALIGNMENT, MAX_RANK, DType, Device, DeviceTraits, Layout, MemoryFormat, MemoryKind,
    MemorySpace, OpaqueKind, OpaqueType, ScalarType, StorageType, TensorType, TupleType, Type,
)
from wrapper_ir.ir.values import Value, as_tensor, device_of, is_results, is_scalar, is_storage, is_tensor

__all__ = [
    "CPU", "DEFAULT_ALIGNMENT", "DIM_ATOMS", "MAX_GRID", "MAX_RANK", "MAX_SCOPES", "NODE_TYPES",
    "NOT_GUARDED", "OPS", "PANEL", "UNKNOWN", "VALUE_ATOMS", "Access", "AllocPurpose", "AllocStorage",
    "Allocation", "Arg", "AssertExpr", "AssertFinite", "AssertLayout", "AtomParser", "Barrier", "CallExtern",
    "CallSubgraph", "CallingOp", "CheckOp", "Choice", "CollectiveOp", "CollectiveStart", "Comment", "Complex",
    "Constant", "ConstantKind", "ConstantOutput", "ConstantValue", "ControlOp", "Copy", "CppKernel",
    "CppSource", "DType", "DebugMode", "DebugOp", "DebugPhase", "DebugValue", "Def", "Define", "Derivation",
    "Device", "DeviceTraits", "DimAtom", "DriverParam", "DriverParamKind", "Drop", "EffectClass",
    "EffectContext", "EffectSpec", "Effects", "EndOp", "EnsureAligned", "EnterMemoryPool", "EnterProfile",
    "ExitScope", "ExternDef", "ExternInfo", "ExternTag", "FieldSpec", "ForeignKernel", "ForeignMemory",
    "Free", "Function", "FunctionSummary", "Guarded", "ImageKind", "InputOutput", "InputView", "Item",
    "KernelAccess", "KernelBinary", "KernelDef", "KernelNames", "KernelOp", "KernelParam", "Launch",
    "LaunchFacts", "Layout", "MemoryFormat", "MemoryKind", "MemoryOp", "MemorySpace", "MultiKernel", "Node",
    "OffsetOf", "Op", "OpBase", "OpSchema", "OpSet", "OpSpec", "OpaqueKind", "OpaqueType", "OperatorCall",
    "OperatorConstant", "OperatorKernel", "OutputBinding", "OutsideCall", "Ownership", "PackedLayout",
    "Packing", "Panels", "Param", "ParamKind", "Parameter", "ParameterKind", "PlacementOp", "Program",
    "Provenance", "RandomSource", "RandomState", "RecordEvent", "Requirement", "ResizeStorage",
    "ResultOrigin", "ResultOutput", "ResultView", "Return", "Role", "SameTensor", "ScalarConstant",
    "ScalarType", "SchemaArg", "SchemaReturn", "ScopeOp", "Scratch", "SetStorage", "Shape", "SharedLeaf",
    "SharedStorage", "Signature", "SizeOf", "Slot", "StaticInput", "StorageType", "StrideOf", "SubclassSpec",
    "Switch", "SymbolDef", "SyncEvent", "Target", "TensorMap", "TensorType", "TreeKind", "TreeSpec",
    "TritonConfig", "TritonKernel", "TupleType", "Type", "Unpack", "Unwrap", "Use", "Uses", "Value",
    "ValueAtom", "Variant", "View", "ViewMode", "Wait", "WaitEvent", "WhileLoop", "WrappedOutput",
    "WriteBack", "WriteBackKind", "ZeroMode", "as_tensor", "asserted_layouts", "bound_grid", "call_args",
    "call_effects", "callee_name", "callees", "callees_first", "calling_ops", "constant_fault",
    "contiguous_strides", "definitions", "describe", "device_of", "exact_quotient", "exprs", "extent_bytes",
    "extent_elements", "fields_of", "free_values", "fresh", "is_contiguous", "is_enum", "is_layout_extent",
    "is_results", "is_scalar", "is_storage", "is_tensor", "is_two_way", "is_used", "item_values",
    "kernel_symbols", "map_expr_values", "map_function", "map_values", "may_have_item", "merged_access",
    "misfit", "needed", "numel", "op_spec", "operands", "overload_path", "parse_expr", "parse_schema",
    "per_class", "reads", "remainder", "require_effects", "results", "runtime_kind", "slot_alignment",
    "source_of", "source_suffix", "tag_of", "type_symbols", "values_in", "with_source",
]
# fmt: on
