"""Kernels on CPU tensors, by Triton's interpreter: slow, exact in what it does, and with no device.

`special` computes what numpy has no function for, `floats` converts types that numpy lacks, `libdevice` gives CUDA's
device functions by name, `combine` reduces and scans, `builder` completes the interpreter's arithmetic, `world` makes
`triton.language` compute for the time of a launch, `rewrite` prepares functions for that, and `driver` loads and
launches.
"""

from triton_runtime.interp.driver import InterpreterDriver

__all__ = ["InterpreterDriver"]
