"""Chooses one of several equivalent kernels: by measurement, by sizes, or by an option."""

from triton_runtime.choose.metrics import MetricsTable
from triton_runtime.choose.multi import MultiLaunch, nearest
from triton_runtime.choose.options import ChoiceOptions, Pick

__all__ = ["ChoiceOptions", "MetricsTable", "MultiLaunch", "Pick", "nearest"]
