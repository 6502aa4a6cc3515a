"""Programs as native libraries, called with torch's tensors through the loader that needs no torch."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.dlpack import from_dlpack

import cpp_wrapper
import wrapper_ir_native
from cpp_wrapper import CppOptions
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import NotSupportedError
from wrapper_ir_native.program import NativeProgram

OPTIONS = CppOptions(runtime="native", opt_level=0, precompile_after=0)


# Any: arguments and results of any operator
@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """See `wrapper_ir.plugins.protocols.CompiledProgram`."""

    program: NativeProgram

    @property
    def boxed(self) -> Callable[[list[Any]], tuple[Any, ...]]:
        """Native libraries are called with the model's own arguments only."""
        raise NotSupportedError("WIR916", "a native library has no call with flat arguments")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the model. Random numbers start from the seed of torch's generator."""
        seed = getattr(self.program._model._library, "wir_random_seed", None)  # exported if it draws numbers
        if seed is not None:
            seed(ctypes.c_uint64(torch.initial_seed()))
        args, kwargs = pytree.tree_map_only(Tensor, _plain, (args, kwargs))
        return pytree.tree_map(tensor_of, self.program(*args, **kwargs))


def _plain(tensor: Tensor) -> Tensor:
    return tensor.resolve_conj().resolve_neg()


def tensor_of(value: Any) -> Any:
    """Returns a copy of an array as a tensor, and other results as they are."""
    if isinstance(value, np.ndarray) and value.dtype.isbuiltin != 1:  # of ml_dtypes
        bits = from_dlpack(value.view(f"u{value.itemsize}"))
        return bits.view(getattr(torch, value.dtype.name)).clone()
    return from_dlpack(value).clone() if hasattr(value, "__dlpack__") else value


def native_library(artifact: Artifact, options: CppOptions = OPTIONS) -> NativeLibrary:
    """Builds and loads a program. Raises the errors of `cpp_wrapper.build`."""
    with tempfile.TemporaryDirectory() as folder:
        path = cpp_wrapper.build(artifact, Path(folder) / "model.so", options)
        return NativeLibrary(wrapper_ir_native.load(path))
