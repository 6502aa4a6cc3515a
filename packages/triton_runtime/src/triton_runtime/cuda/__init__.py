"""Kernels on CUDA devices: loaded through the driver, launched by a native extension."""

from triton_runtime.cuda.driver import CudaDriver, CudaOptions
from triton_runtime.cuda.sequence import Step, make_sequence

__all__ = ["CudaDriver", "CudaOptions", "Step", "make_sequence"]
