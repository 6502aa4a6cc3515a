"""Connects loading with tuning and choosing: one device, one store, one tuner."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version

from triton_runtime.choose import MultiLaunch
from triton_runtime.errors import without_errors
from triton_runtime.loading import Loader
from triton_runtime.options import TritonOptions
from triton_runtime.tune import DeviceKey, TimingCache, TunedLaunch, Tuner, timer_for, with_config
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir_runtime.cache import Cache


class Tuning:
    """Creates kernels that are chosen at their first launch, by the times in `timings`."""

    def __init__(
        self, options: TritonOptions, cache: Cache, timings: TimingCache, loader: Loader, device: ir.Device
    ) -> None:
        self._options, self._cache, self._timings, self._loader = options, cache, timings, loader
        self._timer = options.timer or timer_for(device)
        self._tuner = Tuner(
            loader.load_each,
            self._timer,
            timings,
            store=cache.store("triton-tuning"),
            derive=loader.derived,
            options=options.tune,
        )

    def tuned(self, kernel: ir.TritonKernel) -> TunedLaunch:
        """Loads a kernel with several configs."""
        return TunedLaunch(kernel, self._tuner, self._load)

    def multi(
        self, kernel: ir.MultiKernel, kernels: Mapping[str, ir.KernelDef], loaded: Mapping[str, LoadedKernel]
    ) -> MultiLaunch:
        """Combines several loaded kernels into a multi-kernel."""
        choices = self._cache.store("triton-choices")
        choice = replace(self._options.choice, sources=self._loader.compiler.folder)
        return MultiLaunch(kernel, kernels, loaded, self._timer, self._timings, choices, choice)

    def _load(self, kernel: ir.TritonKernel, config: ir.TritonConfig) -> LoadedKernel:
        [loaded] = without_errors(self._loader.load_each([with_config(kernel, config)]))
        return loaded


def device_key(device: ir.Device) -> DeviceKey:
    """The validity of times measured on this machine."""
    return DeviceKey(_device_name(device), version("triton"))


def _device_name(device: ir.Device) -> str:
    """The model name of a device."""
    if device.type == "cpu":
        return f"cpu {platform.processor() or platform.machine()}"
    import torch

    return str(torch.get_device_module(device.type).get_device_name(device.index))
