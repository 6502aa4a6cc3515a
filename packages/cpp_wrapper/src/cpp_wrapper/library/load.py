"""Loads compiled libraries.

Code is loaded with dlopen from a copy in memory. Constants are copied or memory-mapped from the file.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpp_wrapper._compat import current_device, need_torch
from cpp_wrapper.errors import CacheError
from cpp_wrapper.library.image import Image, read_code
from cpp_wrapper.library.package import find_image
from cpp_wrapper.sources.version import METADATA_VERSION, NATIVE
from wrapper_ir import ir
from wrapper_ir.errors import ParseError
from wrapper_ir.json import signature_from_json
from wrapper_ir_native.code import code_path
from wrapper_ir_native.errors import NativeError

if TYPE_CHECKING:
    from cpp_wrapper.library.python import LoadedProgram  # loaded, it loads torch

_HINT = "build it with cpp_wrapper.build, for this torch and this machine"


def load(path: str | Path, device: int | None = None, *, check_constants: bool = True) -> LoadedProgram:
    """Loads a library or a package as a callable with the model's signature and result structure.

    Its method `boxed` accepts `main`'s flat arguments in a list, and empties the list. Any number of threads
    may call it unless the program writes constants. Nothing is extracted, and no process is started.

    A program for a CUDA device runs on the one with index `device`; None: on the current one.

    `check_constants` compares the constants with their checksums, which reads all of them. Disable it to
    start faster if the file was checked before. Code and metadata are always compared.

    Raises CacheError CPP304 for a file that is damaged or not a library of this package, IsaError CPP201 if
    the processor lacks instructions, CppError CPP580 without torch, NotSupportedError WIR914 and WIR919 for
    operators that torch lacks, or has with another schema. Calls raise ExecutionError (WIR92n), LaunchError,
    and ArtifactError WIR713 if the file was overwritten in place while its constants are mapped (4 MiB and
    more).
    """
    image = _find(Path(path).resolve())
    if image.facts.get("runtime") == NATIVE:
        return _load_native(image, device, check_constants, in_place=False)
    return _load(image, device, check_constants, in_place=False)


def load_in_place(path: Path, device: int | None = None) -> LoadedProgram:
    """Loads a library by its path, where debuggers find it.

    The file must not change while the process runs.
    """
    image = _find(path)
    load_image = _load_native if image.facts.get("runtime") == NATIVE else _load
    return load_image(image, device, check_constants=True, in_place=True)


def _find(path: Path) -> Image:
    need_torch("a library that Python calls")
    image = find_image(path)
    if image.facts.get("version") != METADATA_VERSION:
        raise CacheError("CPP304", f"{path} was built by another edition of this package", _HINT)
    return image


def _load(image: Image, device: int | None, check_constants: bool, *, in_place: bool) -> LoadedProgram:
    from cpp_wrapper.library.bridges import register_bridge  # they load torch
    from cpp_wrapper.library.groups import register_operators
    from cpp_wrapper.library.operators import require_operators
    from cpp_wrapper.library.python import LoadedProgram

    path, code = image.path, read_code(image)
    try:
        register_operators(image.facts)
        require_operators(image.facts)
        for operator, schema in image.facts["bridges"].items():
            register_bridge(operator, schema)
        signature = signature_from_json(json.dumps(image.facts["signature"]))
        with nullcontext(str(path)) if in_place else code_path(code, path.name) as name:
            library = ctypes.CDLL(name)
            library.wir_file(os.fsencode(path), ctypes.c_uint64(image.begin), ctypes.c_uint64(image.nbytes))
            if not check_constants:
                library.wir_check_constants(0)
            facts = image.facts if image.facts["device"] == "cpu" else _on_device(image.facts, device)
            return LoadedProgram(library, facts, _without_copies(signature), path)
    except (OSError, AttributeError, KeyError, TypeError, ParseError) as error:
        raise CacheError("CPP304", f"{path} is not a library of this package: {error}", _HINT) from error


def _load_native(image: Image, device: int | None, check_constants: bool, *, in_place: bool) -> LoadedProgram:
    from cpp_wrapper.library.failures import error_of  # they load torch
    from cpp_wrapper.library.native import NativeProgram

    try:
        signature = _without_copies(signature_from_json(json.dumps(image.facts["signature"])))
        index = None
        if image.facts["device"] != "cpu":
            index = current_device() if device is None else device
            image = dataclasses.replace(image, facts=_on_device(image.facts, index))
        return NativeProgram(
            image, signature, check_constants=check_constants, device=index, in_place=in_place
        )
    except NativeError as error:
        raise error_of(f"[{error.code}] {error.message}") from error
    except (KeyError, TypeError, ParseError) as error:
        raise CacheError(
            "CPP304", f"{image.path} is not a library of this package: {error}", _HINT
        ) from error


def _on_device(facts: Mapping[str, Any], index: int | None) -> Mapping[str, Any]:
    """Returns the metadata of a program for a CUDA device, changed to the device `index`."""
    captured, device = facts["device"], f"cuda:{current_device() if index is None else index}"
    inputs = [{**one, "device": device} if one.get("device") == captured else one for one in facts["inputs"]]
    return {**facts, "device": device, "inputs": inputs}


def metadata(path: str | Path) -> Mapping[str, Any]:  # Any: JSON
    """Reads the metadata of a library or a package without running it.

    Keys: `inputs`, `results`, `constants` (their names), `signature` and others. Raises CacheError CPP304.
    """
    return find_image(Path(path)).facts


def _without_copies(signature: ir.Signature) -> ir.Signature:
    """Returns the signature with write-backs as written inputs: the library itself copies results back."""
    leaves = dict.fromkeys((*signature.written, *(back.leaf for back in signature.write_backs)))
    return dataclasses.replace(signature, write_backs=(), written=tuple(leaves))
