"""Every attribute of torch and Triton that a capture replaces temporarily: its reason, and the versions of
torch that have it.

The replacement is defined in the stage that needs it, and installed with `replaced`:

    with replaced(MESSAGES.by(_check_with=check_with)):
        ...
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import reduce
from typing import Any

# Any in this file: attributes of torch have any type.


@dataclass(frozen=True, slots=True)
class PatchPoint:
    """Attributes of one object, separated by spaces. `owner` is a module, or a module and a path in it after
    a colon.

    `may_lack`: some versions lack the attributes, and nothing is replaced there. `adds`: the object inherits
    the attributes, or does not have them.
    """

    owner: str
    attributes: str
    why: str
    versions: str = "2.11 to 2.15"
    may_lack: bool = False
    adds: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes."""
        return tuple(self.attributes.split())

    def find(self) -> Any:
        """Imports the module and returns the object."""
        module, _, path = self.owner.partition(":")
        return reduce(getattr, path.split(".") if path else (), importlib.import_module(module))

    def own(self) -> Any:
        """Returns torch's own value of the first attribute."""
        return getattr(self.find(), self.names[0])

    def by(self, **values: object) -> Change:
        """Returns a change of some of these attributes to `values`, by name."""
        assert values.keys() <= set(self.names), f"{self.owner} is not listed with {sorted(values)}"
        return Change(self, values)


@dataclass(frozen=True, slots=True)
class Change:
    """New values of attributes, by name."""

    point: PatchPoint
    values: dict[str, object]


_ORDERS_STREAMS = "2.12, 2.13, 2.14, 2.15"
"""Torch 2.11 does not schedule streams."""

# --- while a model is exported

SIZE_SYMBOLS = PatchPoint(
    "torch.fx.experimental.symbolic_shapes",
    "make_symbol",
    "sizes are positive to sympy, which then decides without a guard that a tensor is not empty",
)
LAYOUT_QUESTIONS = PatchPoint(
    "torch.fx.experimental.sym_node:SymNode",
    "guard_bool",
    "operators in C++ ask whether a tensor is empty to copy less, and the answer is a guard",
)
MODEL_LAYOUT_QUESTIONS = PatchPoint(
    "torch:Tensor", "is_contiguous", "what a model asks itself stays a guard", adds=True
)
MESSAGES = PatchPoint(
    "torch", "_check_with", "the message of a check is dropped if its condition is symbolic"
)
TRITON_LAUNCHES = PatchPoint(
    "triton.runtime.jit:KernelInterface",
    "__getitem__",
    "torch.export traces a launch only of a kernel that was wrapped with wrap_triton",
)
TRITON_NODES = PatchPoint(
    "torch._higher_order_ops.triton_kernel_wrap:TracingTritonHOPifier",
    "call_HOP",
    "the tracer of torch.export loses the blocks of tensor descriptors",
)
CUDA_CLASSES = PatchPoint(
    "torch.cuda",
    "Stream Event",
    "a model that is traced for an absent GPU creates its own",
    versions=_ORDERS_STREAMS,
)
CUDA_FUNCTIONS = PatchPoint(
    "torch.cuda",
    "current_stream synchronize",
    "torch.export runs what orders streams, and forgets it",
    versions=_ORDERS_STREAMS,
)
CUDA_CONTEXTS = PatchPoint(
    "torch.cuda:StreamContext",
    "__enter__ __exit__",
    "nodes are marked with their stream",
    versions=_ORDERS_STREAMS,
)
CUDA_STREAMS = PatchPoint(
    "torch.cuda:Stream",
    "wait_event wait_stream record_event synchronize query",
    "torch.export runs what orders streams, and forgets it",
    versions=_ORDERS_STREAMS,
    adds=True,
)
CUDA_EVENTS = PatchPoint(
    "torch.cuda:Event",
    "record wait synchronize query",
    "torch.export runs what orders streams, and forgets it",
    versions=_ORDERS_STREAMS,
    adds=True,
)
CUDA_MEMORY = PatchPoint(
    "torch:Tensor",
    "record_stream",
    "memory that several streams use is kept until the program ends",
    versions=_ORDERS_STREAMS,
    adds=True,
)

FAKE_RESULTS = PatchPoint(
    "torch._subclasses.fake_tensor:FakeTensorMode",
    "_dispatch_impl",
    "a fake kernel may return its argument although the schema promises a new tensor: tracers confuse them",
)
COMBINATIONS = PatchPoint(
    "torch:ops.aten.combinations.default", "py_kernels", "a trace loses the size of a mask's selection"
)
SECTIONS = PatchPoint(
    "torch:ops.aten.tensor_split.sections",
    "py_kernels",
    "a trace guards on the remainder of a size in the example",
)

# --- while it is made functional

STREAM_ORDER = PatchPoint(
    "torch._functorch._aot_autograd.graph_capture",
    "wrap_all_sync_nodes_with_control_deps",
    "AOTAutograd refuses its own graph if written tensors pass through operators that order streams",
    versions=_ORDERS_STREAMS,
)

JOINT_PASSES = PatchPoint(
    "torch._inductor.compile_fx",
    "joint_graph_passes",
    "registers patterns of every kind, whatever operators the graph has",
)
JOINT_PATTERNS = PatchPoint(
    "torch._inductor.fx_passes.joint_graph",
    "lazy_init",
    "registers patterns of every kind, whatever operators the graph has",
)
ATTENTION_PATTERNS = PatchPoint(
    "torch._inductor.fx_passes.fuse_attention",
    "_sfdp_init",
    "takes a fifth of a second, needlessly in graphs without attention",
)
PERMUTATION_PATTERNS = PatchPoint(
    "torch._inductor.fx_passes.misc_patterns",
    "_misc_patterns_init",
    "traces functions, needlessly in graphs without random permutations",
)

COPIES = PatchPoint(
    "torch:ops.aten.copy.default", "py_kernels", "a copy into `x[:, 0]` guards on two elements"
)

# --- while Inductor schedules

TUNING_KEY = PatchPoint(
    "torch.utils._triton",
    "triton_hash_with_backend",
    "the key of a cache that is not used here; computing it requires a device",
)
INDEX_VALUES = PatchPoint(
    "torch.utils._sympy.functions:Identity",
    "_eval_evalf",
    "sums of wrapped indices have no order without it, and graphs with a padded relative position fail",
    adds=True,
)
STRIDE_HINTS = PatchPoint(
    "torch._inductor.sizevars:SizeVarAllocator",
    "stride_hints",
    "with the values of wrapped indices, sympy needs 40 ms for a stride",
)
CLAMPED_SIZES = PatchPoint(
    "torch._inductor.sizevars:SizeVarAllocator",
    "evaluate_min evaluate_max",
    "refuse sizes of unknown order, and evaluate the minimum of n - 2 and 0 as gcd(n - 2, 0)",
)
OVERLAPS = PatchPoint(
    "torch._inductor.fx_passes.reinplace",
    "compute_overlapping_tensors",
    "a write to `x[1:]` guards on its having rows, which torch's exported programs do not check",
)
OVERLAP_IN_ITSELF = PatchPoint(
    "torch", "_debug_has_internal_overlap", "a write to `x[:, 0]` guards on two elements"
)
VIEW_STRIDES = PatchPoint(
    "torch._subclasses.fake_impls",
    "_compute_stride",
    "a view such as `x[:, 0]` guards on two rows of `x`",
    may_lack=True,
)
VECTOR_BUILDS = PatchPoint(
    "torch._inductor.cpu_vec_isa:VecISA",
    "check_build",
    "Inductor builds up to eleven libraries to detect the vector instructions",
)
REPLACEMENT_TRACES = PatchPoint(
    "torch._inductor.pattern_matcher",
    "fwd_only",
    "a replacement is traced for every match, 6 ms each, with equal results if layers are equal",
)
TEMPLATE_CHOICES = PatchPoint(
    "torch._inductor.select_algorithm:AlgorithmSelectorCache",
    "__call__",
    "every instance of a template is kept, and none is benchmarked",
)
TEMPLATE_SELECTOR = PatchPoint(
    "torch._inductor.select_algorithm",
    "_ALGORITHM_SELECTOR_CACHE",
    "is created with a key of its benchmarks, for which Triton's library is hashed; nothing is benchmarked",
)
MEASUREMENT_KEY = PatchPoint(
    "torch._inductor.codecache:CacheBase",
    "__init__",
    "computes a key of benchmarks that is not used here: hashing Triton's library takes a third of a second",
)
TEMPLATE_CODE = PatchPoint(
    "torch._inductor.codegen.simd:SIMDScheduling",
    "codegen_template",
    "a kernel is generated for every instance",
)
TEMPLATE_MODULES = PatchPoint(
    "torch._inductor.select_algorithm",
    "PyCodeCache",
    "the module of an instance is not loaded, because it is never run",
)
TEMPLATE_OPERATORS = PatchPoint(
    "torch._inductor.select_algorithm",
    "use_aten_gemm_kernels",
    "checks whether an operator could replace a template that requires other strides",
    versions="2.13, 2.14, 2.15",
    may_lack=True,
)
WRITTEN_PARAMETERS = PatchPoint(
    "torch._higher_order_ops.triton_kernel_wrap",
    "generate_ttir",
    "counts what a tensor descriptor becomes only for devices with hardware for it",
)
DESCRIPTOR_HARDWARE = PatchPoint(
    "torch.utils._triton",
    "has_triton_tensor_descriptor_host_tma",
    "counts what a tensor descriptor becomes only for devices with hardware for it",
)
DESCRIPTORS = PatchPoint(
    "torch._inductor.ir:TMADescriptor",
    "_CACHE",
    "caches descriptors by address, also those of an earlier graph",
)
KERNEL_CALLS = PatchPoint(
    "torch._inductor.codegen.triton:TritonKernel",
    "call_kernel",
    "partial results of a kernel are reduced by a line of text",
)
TUNER = PatchPoint(
    "torch._inductor.runtime.triton_heuristics",
    "cached_autotune",
    "a heuristic passes its configs to the autotuner only",
)

# --- while C++ is generated for another machine

CHOSEN_VECTORS = PatchPoint(
    "torch._inductor.cpu_vec_isa", "pick_vec_isa", "queries the vector instructions of this machine"
)
CHOSEN_VECTORS_OF_MATMULS = PatchPoint(
    "torch._inductor.codegen.cpp_micro_gemm",
    "pick_vec_isa",
    "queries the vector instructions of this machine",
)
BF16_VECTORS = PatchPoint(
    "torch.cpu",
    "_is_avx512_bf16_supported",
    "an extension of this machine would make the source specific to it",
)

# --- while an absent GPU is emulated

GPU_INTERFACES = PatchPoint(
    "torch._dynamo.device_interface",
    "device_interfaces",
    "Inductor queries device interfaces, and CUDA's looks for a GPU",
)
GPU_FACTS = PatchPoint(
    "torch.cuda",
    "is_available is_initialized device_count current_device get_device_properties get_device_capability"
    " get_device_name is_bf16_supported is_tf32_supported mem_get_info is_current_stream_capturing _lazy_init"
    " get_rng_state set_rng_state",
    "queries of the GPU are answered from a table",
)
FAKE_DEVICES = PatchPoint(
    "torch._subclasses.fake_tensor:FakeTensorMode", "avoid_device_init", "fake tensors would initialize CUDA"
)
FAKE_CONTEXTS = PatchPoint(
    "torch._subclasses.fake_tensor", "init_gpu_context", "fake tensors would initialize CUDA"
)
FOLDING = PatchPoint(
    "torch._inductor.constant_folding:ConstantFolder",
    "run_node",
    "computes constants with real tensors, on the device of the graph",
)
TRITON_DRIVER = PatchPoint(
    "triton.runtime.driver:driver",
    "_active",
    "reports the target, which Inductor needs to analyze what kernels of a model write",
)
ATTENTION = PatchPoint(
    "torch:ops.aten.scaled_dot_product_attention.default",
    "py_kernels",
    "torch queries the device to select a kernel, and uses matmuls and a softmax without a device",
)

PATCH_POINTS = tuple(value for value in vars().copy().values() if isinstance(value, PatchPoint))
"""All patch points. In addition, `devices/guard.py` registers a C++ guard for CUDA in a torch that was built
without it."""
