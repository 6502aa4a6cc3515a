"""Loads native libraries.

Code is loaded with dlopen from a copy in memory. Constants are copied or memory-mapped from the file.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

from wrapper_ir_native.api import Api, Options, api_of
from wrapper_ir_native.code import open_code
from wrapper_ir_native.errors import CacheError, error_of
from wrapper_ir_native.file import FormatError, Image, read_code, read_image
from wrapper_ir_native.nvidia import provide_libraries
from wrapper_ir_native.program import Model, NativeProgram
from wrapper_ir_native.structure import Json

_HINT = "build it with cpp_wrapper.build and CppOptions(runtime='native')"


def load(
    path: str | Path,
    *,
    threads: int = 0,
    check_constants: bool = True,
    weights: str | Path | None = None,
    device: int = 0,
) -> NativeProgram:
    """Loads a native library as a callable with the model's signature and result structure.

    `threads` limits the threads in a call; 0: OpenMP's setting. `check_constants` compares the constants with
    their checksums, which reads all of them; code and metadata are always compared. `weights` is the file of
    constants of a library that was built with `weights="beside"`; None: the one beside the library. `device`
    is the index of the device of a program for CUDA.

    Raises CacheError CPP304 for a file that is damaged or not a native library, CPP306 if the file of
    constants is missing or has others, and IsaError CPP201 if the processor lacks instructions. Calls raise
    ArtifactError WIR713 if a file was overwritten in place while its constants are mapped.
    """
    file = Path(path).resolve()
    image = _image(file)
    model = open_model(
        image, threads=threads, check_constants=check_constants, weights=weights, device=device
    )
    try:
        return NativeProgram(model, image.facts, file)
    except (KeyError, TypeError) as error:
        raise CacheError("CPP304", f"{file} was built by another edition of this package", _HINT) from error


def metadata(path: str | Path) -> Mapping[str, Json]:
    """Reads the metadata of a library without running it.

    Keys: `inputs`, `results`, `constants` (their names), `signature` and others. Raises CacheError CPP304.
    """
    return _image(Path(path)).facts


def _image(path: Path) -> Image:
    try:
        return read_image(path)
    except FormatError as error:
        raise CacheError("CPP304", str(error), _HINT) from error


def open_model(
    image: Image,
    *,
    threads: int = 0,
    check_constants: bool = True,
    weights: str | Path | None = None,
    device: int = 0,
    model_class: type[Model] = Model,
    in_place: bool = False,
) -> Model:
    """Opens the model of a library. Raises the errors of `load`.

    `in_place` loads the code by the file's path, where debuggers find it: the file must not change while the
    process runs.
    """
    if image.facts.get("runtime") != "native":
        hint = f"load it with cpp_wrapper.load, or {_HINT}"
        raise CacheError("CPP304", f"{image.path} is not a native library: it needs torch", hint)
    try:
        code = read_code(image)
        library = ctypes.CDLL(str(image.path)) if in_place else open_code(code, image.path.name)
        api = api_of(library)
    except FormatError as error:
        raise CacheError("CPP304", str(error), _HINT) from error
    except (OSError, AttributeError, ValueError) as error:
        raise CacheError("CPP304", f"{image.path} is not a native library: {error}", _HINT) from error
    provide_libraries(image.facts)
    options = Options(
        size=ctypes.sizeof(Options),
        threads=threads,
        unchecked_constants=not check_constants,
        path=os.fsencode(image.path),
        begin=image.begin,
        nbytes=image.nbytes,
        weights=None if weights is None else os.fsencode(weights),
        device=device,
    )
    return model_class(library, api, _opened(api, options))


def _opened(api: Api, options: Options) -> int:
    address = ctypes.c_void_p()
    if api.open(ctypes.byref(options), ctypes.byref(address)) != 0:
        raise error_of(bytes(api.last_error()).decode(errors="replace"))
    assert address.value is not None  # after a success
    return address.value
