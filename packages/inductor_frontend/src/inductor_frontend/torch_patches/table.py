"""Every place of torch, and of Triton, that a capture replaces for a time: what, why, and in which versions of torch.

What takes the place of torch's own stays with the stage that needs it, and gets it with `replaced`:

    with replaced(MESSAGES.by(_check_with=check_with)):
        ...
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import reduce
from typing import Any

__all__ = ["PLACES", "Change", "Place"]

# Any in this file: attributes of torch, of any type.


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Attributes of one object: a module, or what is found in it by the path behind a colon. `may_lack`: not every torch has
    them, and where one has not, nothing is replaced; `adds`: the object inherits them, or has none."""

    owner: str
    names: tuple[str, ...]
    why: str
    versions: str = "2.11 to 2.13"
    may_lack: bool = False
    adds: bool = False

    def find(self) -> Any:
        """The object itself; imports its module."""
        module, _, path = self.owner.partition(":")
        return reduce(getattr, path.split(".") if path else (), importlib.import_module(module))

    def own(self) -> Any:
        """What torch has at the only name, or at the first."""
        return getattr(self.find(), self.names[0])

    def by(self, **values: object) -> Change:
        """A change of some of these attributes to `values`, by name."""
        assert values.keys() <= set(self.names), f"{self.owner} is not listed with {sorted(values)}"
        return Change(self, values)


@dataclass(frozen=True, slots=True)
class Change:
    """New values of a place, by name."""

    place: Place
    values: dict[str, object]


# --- while a model is exported

MESSAGES = Place(
    owner="torch",
    names=("_check_with",),
    why="the message of a check is dropped where its condition is symbolic",
)
TRITON_LAUNCHES = Place(
    owner="triton.runtime.jit:KernelInterface",
    names=("__getitem__",),
    why="torch.export sees through a launch only of a kernel that was wrapped by hand",
)
TRITON_NODES = Place(
    owner="torch._higher_order_ops.triton_kernel_wrap:TracingTritonHOPifier",
    names=("call_HOP",),
    why="the tracer of torch.export loses the blocks of tensor descriptors",
)
CUDA_CLASSES = Place(
    owner="torch.cuda",
    names=("Stream", "Event"),
    why="a model that is traced for an absent GPU makes its own",
    versions="2.12, 2.13",
)
CUDA_FUNCTIONS = Place(
    owner="torch.cuda",
    names=("current_stream", "synchronize"),
    why="torch.export runs what orders streams, and forgets it",
    versions="2.12, 2.13",
)
CUDA_CONTEXTS = Place(
    owner="torch.cuda:StreamContext",
    names=("__enter__", "__exit__"),
    why="nodes are marked with their stream",
    versions="2.12, 2.13",
)
CUDA_STREAMS = Place(
    owner="torch.cuda:Stream",
    names=("wait_event", "wait_stream", "record_event", "synchronize", "query"),
    why=CUDA_FUNCTIONS.why,
    versions="2.12, 2.13",
    adds=True,
)
CUDA_EVENTS = Place(
    owner="torch.cuda:Event",
    names=("record", "wait", "synchronize", "query"),
    why=CUDA_FUNCTIONS.why,
    versions="2.12, 2.13",
    adds=True,
)
CUDA_MEMORY = Place(
    owner="torch:Tensor",
    names=("record_stream",),
    why="memory that several streams use is kept until the program ends",
    versions="2.12, 2.13",
    adds=True,
)

# --- while it is made functional

STREAM_ORDER = Place(
    owner="torch._functorch._aot_autograd.graph_capture",
    names=("wrap_all_sync_nodes_with_control_deps",),
    why="AOTAutograd refuses its own graph where tensors that are written go through what orders streams",
    versions="2.12, 2.13",
)

# --- while Inductor schedules

TUNING_KEY = Place(
    owner="torch.utils._triton",
    names=("triton_hash_with_backend",),
    why="the key of a cache that nothing here reads; making it takes a device",
)
INDEX_VALUES = Place(
    owner="torch.utils._sympy.functions:Identity",
    names=("_eval_evalf",),
    why="sums of wrapped indices have no order without it, and graphs with a padded relative position fail",
    adds=True,
)
STRIDE_HINTS = Place(
    owner="torch._inductor.sizevars:SizeVarAllocator",
    names=("stride_hints",),
    why="with the values of wrapped indices, sympy takes 40 ms for a stride",
)
VECTOR_BUILDS = Place(
    owner="torch._inductor.cpu_vec_isa:VecISA",
    names=("check_build",),
    why="Inductor builds up to eleven libraries to learn which vector instructions there are",
)
TEMPLATE_CHOICES = Place(
    owner="torch._inductor.select_algorithm:AlgorithmSelectorCache",
    names=("__call__",),
    why="every instance of a template is kept, and none is measured",
)
TEMPLATE_CODE = Place(
    owner="torch._inductor.codegen.simd:SIMDScheduling",
    names=("codegen_template",),
    why="a kernel is written for every instance that was kept",
)
TEMPLATE_MODULES = Place(
    owner="torch._inductor.select_algorithm",
    names=("PyCodeCache",),
    why="the module of an instance is not loaded: nobody runs it",
)
TEMPLATE_OPERATORS = Place(
    owner="torch._inductor.select_algorithm",
    names=("use_aten_gemm_kernels",),
    why="asks whether an operator could still take over from a template that wants other strides",
    versions="2.13",
    may_lack=True,
)
WRITTEN_PARAMETERS = Place(
    owner="torch._higher_order_ops.triton_kernel_wrap",
    names=("generate_ttir",),
    why="counts what a tensor descriptor becomes only for devices with hardware for it",
)
DESCRIPTOR_HARDWARE = Place(
    owner="torch.utils._triton",
    names=("has_triton_tensor_descriptor_host_tma",),
    why=WRITTEN_PARAMETERS.why,
)
DESCRIPTORS = Place(
    owner="torch._inductor.ir:TMADescriptor",
    names=("_CACHE",),
    why="keeps descriptors of tensors that have been at the same address in an earlier graph",
)
KERNEL_CALLS = Place(
    owner="torch._inductor.codegen.triton:TritonKernel",
    names=("call_kernel",),
    why="what a kernel leaves in part is finished by a line of text",
)
TUNER = Place(
    owner="torch._inductor.runtime.triton_heuristics",
    names=("cached_autotune",),
    why="a heuristic gives its configs to the tuner alone",
)

# --- while C++ is written for another machine

CHOSEN_VECTORS = Place(
    owner="torch._inductor.cpu_vec_isa",
    names=("pick_vec_isa",),
    why="asks the machine which vector instructions it has",
)
CHOSEN_VECTORS_OF_PRODUCTS = Place(
    owner="torch._inductor.codegen.cpp_micro_gemm", names=("pick_vec_isa",), why=CHOSEN_VECTORS.why
)
BF16_VECTORS = Place(
    owner="torch.cpu",
    names=("_is_avx512_bf16_supported",),
    why="an extension of this machine would make the source one for this machine",
)

# --- while a GPU is not here

GPU_INTERFACES = Place(
    owner="torch._dynamo.device_interface",
    names=("device_interfaces",),
    why="Inductor asks device interfaces, and CUDA's looks for a GPU",
)
GPU_FACTS = Place(
    owner="torch.cuda",
    names=(
        "is_available",
        "is_initialized",
        "device_count",
        "current_device",
        "get_device_properties",
        "get_device_capability",
        "get_device_name",
        "is_bf16_supported",
        "is_tf32_supported",
        "mem_get_info",
        "_lazy_init",
        "get_rng_state",
        "set_rng_state",
    ),
    why="asked about the GPU, and answered out of a table",
)
FAKE_DEVICES = Place(
    owner="torch._subclasses.fake_tensor:FakeTensorMode",
    names=("avoid_device_init",),
    why="fake tensors would start up CUDA",
)
FAKE_CONTEXTS = Place(
    owner="torch._subclasses.fake_tensor", names=("init_gpu_context",), why=FAKE_DEVICES.why
)
FOLDING = Place(
    owner="torch._inductor.constant_folding:ConstantFolder",
    names=("run_node",),
    why="computes constants with real tensors, on the device of the graph",
)
TRITON_DRIVER = Place(
    owner="triton.runtime.driver:driver",
    names=("_active",),
    why="names the target, by which Inductor finds out what kernels of a model write",
)
ATTENTION = Place(
    owner="torch:ops.aten.scaled_dot_product_attention.default",
    names=("py_kernels",),
    why="torch asks the device which kernel to take, and takes products and a softmax where there is none",
)

PLACES = tuple(value for value in vars().copy().values() if isinstance(value, Place))
"""All of them. Besides, `devices/guard.py` lends a guard for CUDA to a torch that was built without it, in C++."""
