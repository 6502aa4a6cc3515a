"""Wrapper IR to Python source that a person would enjoy reading, and to a callable."""

from py_wrapper.machine import TORCH_MACHINE, TorchMachine

__all__ = ["TORCH_MACHINE", "TorchMachine"]
