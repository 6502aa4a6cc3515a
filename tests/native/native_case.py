"""Builds and calls native libraries from tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor
from torch.utils.dlpack import from_dlpack

import cpp_wrapper
from cpp_wrapper import CppOptions
from wrapper_ir.artifact import Artifact
from wrapper_ir_native.dlpack import borrow, capsule_of
from wrapper_ir_native.errors import NativeError
from wrapper_ir_native.file import read_image
from wrapper_ir_native.loading import open_model


class NativeLibrary:
    """A native library that takes and returns flat tensors."""

    def __init__(self, path: Path) -> None:
        self._model = open_model(read_image(path))

    def __call__(self, inputs: Sequence[Tensor], outputs: int = 1) -> list[Tensor | None]:
        """Runs the model on its inputs; returns its results."""
        try:
            results = self._model.run([borrow(tensor.detach(), "") for tensor in inputs], outputs)
        except NativeError as error:
            raise RuntimeError(str(error)) from error
        return [None if one is None else from_dlpack(capsule_of(one)).clone() for one in results]


def build_native(artifact: Artifact, folder: Path, **options: object) -> NativeLibrary:
    """Builds a program for the native runtime and opens the library."""
    path = cpp_wrapper.build(artifact, folder / "model.so", CppOptions(runtime="native", **options))  # type: ignore[arg-type]
    return NativeLibrary(path)
