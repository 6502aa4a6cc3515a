"""Environment that affects compiled code: versions, torch's options and state, the processor."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import sympy
import torch
from torch._decomp import global_decomposition_table
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx.experimental import _config as symbols_config

from inductor_frontend.cache.canonical import Writer
from inductor_frontend.cache.operators import NoCanonicalForm, is_own_library
from inductor_frontend.options import CaptureOptions
from inductor_frontend.torch_patches.pinned_options import functorch_patches, inductor_patches
from wrapper_ir.plugins.registry import declared

# Packages whose code affects programs.
_PACKAGES = (
    "inductor-frontend",
    "wrapper-ir",
    "wrapper-ir-passes",
    "wrapper-ir-lowering",
    "wrapper-ir-runtime",
    "wrapper-ir-tools",
)
# Options that do not affect compiled code: logs, workers, caches, and folders of compilers for accelerators.
_IGNORED = (
    "trace.", "worker_", "compile_threads", "quiesce_async", "fx_graph_", "autotune_local_cache",
    "autotune_remote_cache", "bundled_autotune_remote_cache", "force_disable_caches", "fresh_cache",
    "cudagraph_policy", "cutlass.", "cuda.", "rocm.", "xpu.", "pre_grad_pass_timing", "enable_autograd_cache",
    "enable_remote_autograd_cache", "bundled_autograd_cache", "bypass_autograd_cache_key",
    "strict_autograd_cache", "force_autograd_cache", "force_non_lazy_backward_lowering", "debug_",
    "disable_progress", "verbose_progress",
)  # fmt: skip
# torch itself registers Python kernels for these; from 2.14 also for `to_dense` and for vmap decompositions.
_OWN_PYTHON = (
    "/Meta", "/CUDA", "/MPS", "/XPU",
    "aten/to_dense/PythonTLSSnapshot", "aten/to_dense/FuncTorchDynamicLayerFrontMode",
    *(
        f"aten/{name}/FuncTorchBatched"
        for name in (
            "addr", "huber_loss_backward", "mse_loss_backward", "nll_loss2d_backward", "nll_loss2d_forward",
            "nll_loss_backward", "nll_loss_forward", "smooth_l1_loss_backward",
        )
    ),
)  # fmt: skip


@functools.cache
def program_lines() -> tuple[str, ...]:
    """Returns versions, the digest of the packages' sources, and the processor: constant within a process."""
    return (
        f"torch {torch.__version__} {torch.version.git_version}",
        f"python {sys.version_info[:3]} sympy {sympy.__version__} {platform.machine()}",
        f"processor {_processor()}",
        *(f"{name} {_version(name)}" for name in _PACKAGES),
        f"sources {_sources()}",
        *sorted(f"device {name} {version}" for name, version in _providers("devices").items()),
    )


def _version(name: str) -> str:
    try:
        return distribution(name).version
    except PackageNotFoundError:  # running from a source tree that is not installed
        return "unknown"


def _sources() -> str:
    """Returns a digest of the packages' source files: during development, versions stay the same."""
    digest = hashlib.sha256()
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name.replace("-", "_"))
        if spec is None or spec.origin is None:
            continue
        folder = os.path.dirname(spec.origin)
        for path in sorted(_python_files(folder)):
            with open(path, "rb", buffering=0) as file:
                text = file.read()
            digest.update(f"{path[len(folder) :]}\0{len(text)}\0".encode())
            digest.update(text)
    return digest.hexdigest()


def _python_files(folder: str) -> Iterator[str]:
    """Yields all Python files below a folder.

    Uses `os.scandir`: `pathlib` takes four times as long, on the first call of every process.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _python_files(entry.path)


def _processor() -> str:
    """Returns a digest of the model and features of the first processor, as the operating system reports
    them."""
    facts: list[str] = []
    try:
        with Path("/proc/cpuinfo").open() as lines:
            for line in lines:
                if not line.strip():
                    break
                if line.startswith(("model name", "flags", "cache size", "Features", "CPU part")):
                    facts.append(line.strip())
    except OSError:
        facts.append(platform.processor())
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def emitter_version(name: str) -> str:
    """Returns the distribution that provides an emitter, and its version."""
    return _providers("emitters").get(name, "")


def _providers(group: str) -> dict[str, str]:
    """Maps the entry points of a group to the distributions that provide them, with versions."""
    providers: dict[str, str] = {}
    for entry in sorted(declared(group), key=lambda e: e.dist.name if e.dist else ""):
        if entry.dist is not None:
            before = f"{providers[entry.name]}," if entry.name in providers else ""
            providers[entry.name] = f"{before}{entry.dist.name} {entry.dist.version}"
    return providers


def option_lines(options: CaptureOptions) -> Iterator[str]:
    """Yields options and state of torch that affect compiled code. Raises NoCanonicalForm with the option's
    name."""
    pinned = {**inductor_patches(options), **functorch_patches()}
    for module in (inductor_config, functorch_config, symbols_config):
        table: dict[str, object] = module.get_config_copy()
        for name in sorted(table):
            if name not in pinned and not name.startswith(_IGNORED):
                yield f"{module.__name__}.{name} {_option(name, table[name])}"
    if options.matmuls == "split":
        yield f"multiprocessors {_multiprocessors()}"
    yield from _global_state()


def _multiprocessors() -> list[int]:
    """Returns the number of multiprocessors of each GPU, on which the number of parts of a split matmul
    depends."""
    if not torch.cuda.is_available():
        return []
    every = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [gpu.multi_processor_count for gpu in every]


def _option(name: str, value: object) -> str:
    uuid = getattr(value, "uuid", None)  # Inductor's protocol for passes
    if callable(uuid):
        identity = uuid()
        if identity is None:
            raise NoCanonicalForm(f"option {name}: a pass without identity")
        return f"pass {identity!r}"
    try:
        return Writer().text(value)
    except NoCanonicalForm as error:
        raise NoCanonicalForm(f"option {name}: {error}") from None


def _global_state() -> Iterator[str]:
    backends = torch.backends
    # torch publishes no types for most of these
    yield f"dtype {torch.get_default_dtype()} threads {torch.get_num_threads()}"
    yield f"deterministic {torch.are_deterministic_algorithms_enabled()}"
    yield f"warn only {torch.is_deterministic_algorithms_warn_only_enabled()}"
    # a property of the module
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    yield f"fill {fill}"
    yield f"matmul {torch.get_float32_matmul_precision()} {getattr(backends, 'fp32_precision', None)}"
    yield f"mkldnn {backends.mkldnn.enabled} {backends.mkldnn.deterministic}"
    yield f"mkldnn precision {_precisions(backends.mkldnn)}"
    yield f"capability {backends.cpu.get_cpu_capability()} {os.environ.get('ATEN_CPU_CAPABILITY', '')}"
    yield f"quantized {backends.quantized.engine}"
    yield f"einsum {backends.opt_einsum.enabled} {backends.opt_einsum.strategy}"
    for device in sorted(torch._C._autocast_supported_devices()):
        if torch.is_autocast_enabled(device):
            yield f"autocast {device} {torch.get_autocast_dtype(device)}"


def _precisions(mkldnn: object) -> list[object]:  # a module with properties, which older torch lacks
    names = ("matmul", "conv", "rnn")
    return [getattr(getattr(mkldnn, name, None), "fp32_precision", None) for name in names]


def function_lines() -> Iterator[str]:
    """Yields the state that autograd's tracing depends on, besides `option_lines`. Raises NoCanonicalForm."""
    cuda: Any = torch.backends.cuda  # torch leaves these functions untyped
    yield f"grad {torch.is_grad_enabled()} inference {torch.is_inference_mode_enabled()}"
    flags = (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled())
    yield f"attention {flags}"
    yield f"autocast cache {torch.is_autocast_cache_enabled()}"
    for rule in torch.library._impls:
        if rule.startswith("aten/") and not rule.endswith(_OWN_PYTHON):
            raise NoCanonicalForm(f"a Python kernel for {rule}")
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        raise NoCanonicalForm("hooks on saved tensors")
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise NoCanonicalForm("a transform of torch.func around the call")
    if torch._C._len_torch_dispatch_stack():
        raise NoCanonicalForm("a dispatch mode around the call")
    if torch._C._len_torch_function_stack():
        raise NoCanonicalForm("a function mode around the call")


def foreign_operators() -> frozenset[str]:
    """Returns operators with lowerings or decompositions registered outside of torch: such code has no
    identity.

    Raises NoCanonicalForm if one of them is torch's operator.
    """
    operators: set[str] = set()
    for table in _rule_tables():
        for op, function in table.items():
            if not _from_torch(function):
                if not isinstance(op, (OpOverload, OpOverloadPacket)) or is_own_library(op):
                    raise NoCanonicalForm(f"a foreign rule for {op}")
                operators.add(str(op))
    return frozenset(operators)


def _rule_tables() -> Iterator[Mapping[Any, object]]:  # Any: torch's own
    """Yields the tables of lowerings and decompositions.

    Importing Inductor's modules takes a second or two, which a function from the cache must not wait for. If
    they are not imported, no foreign lowering is registered, and Inductor will copy torch's decompositions.
    """
    lowering, decomposition = (sys.modules.get(f"torch._inductor.{n}") for n in ("lowering", "decomposition"))
    if lowering is not None:
        yield lowering.lowerings
    yield (
        global_decomposition_table["post_autograd"] if decomposition is None else decomposition.decompositions
    )


def _from_torch(function: object) -> bool:
    """Returns whether the code of a function, operator or partial application is part of torch or Python."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            module = getattr(function, "__module__", None) or type(function).__module__
            return module is not None and module.split(".")[0] in ("torch", "_operator", "math")
