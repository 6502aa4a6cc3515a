"""Every plug-in satisfies its protocol: mypy checks the assignments below, the tests the registered objects."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

import cpp_wrapper
import fx_converter
import inductor_frontend
import py_wrapper
import triton_runtime
from wrapper_ir.plugins import protocols, registry
from wrapper_ir.plugins.protocols import Emitter, Frontend, KernelRuntime, KernelTuner, Machine

# Static: an implementation that drifts from its protocol fails `make types` here.
FRONTEND: Frontend = inductor_frontend.FRONTEND
EMITTER: Emitter[object] = py_wrapper.EMITTER
FX_EMITTER: Emitter[object] = fx_converter.EMITTER
CPP_EMITTER: Emitter[object] = cpp_wrapper.EMITTER
MACHINE: Machine[Tensor] = py_wrapper.TORCH_MACHINE
RUNTIME: KernelRuntime = cpp_wrapper.KERNEL_RUNTIME
TRITON_RUNTIME: KernelRuntime = triton_runtime.KERNEL_RUNTIME
TUNER: KernelTuner = triton_runtime.KERNEL_RUNTIME

PLUGINS: list[tuple[str, Callable[[str], object], type, str]] = [
    ("frontends", registry.frontend, Frontend, "inductor"),
    ("emitters", registry.emitter, Emitter, "python"),
    ("emitters", registry.emitter, Emitter, "fx"),
    ("emitters", registry.emitter, Emitter, "cpp"),
    ("machines", registry.machine, Machine, "torch"),
    ("kernel_runtimes", registry.kernel_runtime, KernelRuntime, "cpp"),
]


def members(protocol: type) -> set[str]:
    """Returns the attributes and methods of a protocol."""
    return {
        name for name in {*vars(protocol), *inspect.get_annotations(protocol)} if not name.startswith("_")
    }


@pytest.mark.parametrize(("group", "find", "protocol", "name"), PLUGINS, ids=[p[0] for p in PLUGINS])
def test_registered_plugins_have_every_member(
    group: str, find: Callable[[str], object], protocol: type, name: str
) -> None:
    assert name in registry.plugin_names(group)
    for installed in registry.plugin_names(group):
        plugin = find(installed)
        missing = {m for m in members(protocol) if not hasattr(plugin, m)}
        assert missing == set(), installed
        given: object = getattr(plugin, "kind" if protocol is KernelRuntime else "name")  # of the protocol
        assert given == installed


@pytest.mark.parametrize(("group", "find", "protocol", "name"), PLUGINS, ids=[p[0] for p in PLUGINS])
def test_methods_take_what_the_protocol_says(
    group: str, find: Callable[[str], object], protocol: type, name: str
) -> None:
    """Same parameter names in the same order; an implementation may add ones with defaults."""
    plugin = find(name)
    for member in sorted(members(protocol)):
        wanted: object = vars(protocol).get(member)
        if not inspect.isfunction(wanted):
            continue
        expected = [p for p in inspect.signature(wanted).parameters if p != "self"]
        method: Callable[..., Any] = getattr(plugin, member)  # of the protocol
        given = inspect.signature(method).parameters
        assert list(given)[: len(expected)] == expected, member
        for extra in list(given.values())[len(expected) :]:
            assert extra.default is not inspect.Parameter.empty, member


def test_the_registry_knows_every_protocol() -> None:
    """All protocols that can be registered, besides those of their operands and results."""
    found = {name for name, p in vars(protocols).items() if getattr(p, "_is_protocol", False)}
    assert found - {"Protocol"} == {p[2].__name__ for p in PLUGINS} | {
        "AddressComparer",
        "AheadCompiler",
        "BuildingEmitter",
        "PersistentBufferEmitter",
        "PreparingRuntime",
        "CudaGraphEmitter",
        "RelocatingEmitter",
        "StorageChecker",
        "TuningEmitter",
        "TuningRuntime",
        "CallerTensors",
        "CompiledProgram",
        "Containers",
        "KernelTuner",
        "OperatorEmitter",
    }
