"""Runs kernels on CPU tensors with Triton's interpreter: slow, exact, and without a device.

`special` computes functions that numpy lacks, `floats` converts types that numpy lacks, and `libdevice`
provides CUDA's device functions by name. `combine` reduces and scans, and `builder` completes the
interpreter's arithmetic. `world` patches `triton.language` during a launch, `rewrite` prepares functions for
that, and `driver` loads and launches.
"""

from triton_runtime.interp.driver import InterpreterDriver

__all__ = ["InterpreterDriver"]
