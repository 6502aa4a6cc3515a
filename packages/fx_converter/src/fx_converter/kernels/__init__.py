"""Kernels as call targets: loaded launchers, registered operators, torch's form of Triton kernels."""

from fx_converter.kernels.direct import LoadedTarget
from fx_converter.kernels.identity import kernel_hash
from fx_converter.kernels.registered import NAMESPACE, registered_operator
from fx_converter.kernels.targets import KernelCalls, KernelTargets, Pending
from fx_converter.kernels.unloaded import UnloadedKernels

__all__ = [
    "NAMESPACE",
    "KernelCalls",
    "KernelTargets",
    "LoadedTarget",
    "Pending",
    "UnloadedKernels",
    "kernel_hash",
    "registered_operator",
]
