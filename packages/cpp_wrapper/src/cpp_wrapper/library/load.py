"""Opens libraries: the code by the dynamic loader, from a copy in memory; the constants are copied or mapped from the file."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpp_wrapper._compat import current_device, need_torch
from cpp_wrapper.errors import CacheError
from cpp_wrapper.library.image import read_code
from cpp_wrapper.library.package import find_image
from cpp_wrapper.sources.version import METADATA_VERSION
from wrapper_ir import ir
from wrapper_ir.errors import ParseError
from wrapper_ir.json import signature_from_json

if TYPE_CHECKING:
    from cpp_wrapper.library.python import LoadedProgram  # loaded, it loads torch

_HINT = "build it with cpp_wrapper.build, for this torch and this machine"


def load(path: str | Path, device: int | None = None, *, check_constants: bool = True) -> LoadedProgram:
    """Opens a library or a package: a callable with the model's own signature and result structure; its method `boxed` takes
    `main`'s flat arguments in a list, which it empties. Any number of threads may call it, as far as the program writes no
    constants. Nothing is extracted, and no program is started.

    A program for a CUDA device runs on the one with the index `device`; None: on the current one.

    `check_constants` compares the constants with their checksums, which reads all of them; switch it off where start-up time counts
    more, and the file was checked before. Code and metadata are compared in any case.

    Raises CacheError CPP304 for a file that is damaged or not a library of this package, IsaError CPP201 where the processor lacks
    instructions, CppError CPP580 without torch, NotSupportedError WIR914 and WIR919 for operators that torch does not have, or has
    with another schema. Calls raise ExecutionError (WIR92n), LaunchError, and
    ArtifactError WIR713 where the file was written in place and its constants are mapped (4 MiB and more).
    """
    return _load(Path(path).resolve(), device, check_constants, in_place=False)


def load_in_place(path: Path, device: int | None = None) -> LoadedProgram:
    """`load`, by the library's own path, by which debuggers find it. The file must not be replaced as long as the process runs."""
    return _load(path, device, check_constants=True, in_place=True)


def _load(path: Path, device: int | None, check_constants: bool, *, in_place: bool) -> LoadedProgram:
    need_torch("a library that Python calls")
    from cpp_wrapper.library.bridges import register_bridge  # they load torch
    from cpp_wrapper.library.groups import register_operators
    from cpp_wrapper.library.operators import require_operators
    from cpp_wrapper.library.python import LoadedProgram

    image = find_image(path)
    if image.facts.get("version") != METADATA_VERSION:
        raise CacheError("CPP304", f"{path} was built by another edition of this package", _HINT)
    code = read_code(image)
    try:
        register_operators(image.facts)
        require_operators(image.facts)
        for operator, schema in image.facts["bridges"].items():
            register_bridge(operator, schema)
        signature = signature_from_json(json.dumps(image.facts["signature"]))
        with nullcontext(str(path)) if in_place else _code(code, path.name) as name:
            library = ctypes.CDLL(name)
            library.wir_file(os.fsencode(path), ctypes.c_uint64(image.begin), ctypes.c_uint64(image.nbytes))
            if not check_constants:
                library.wir_check_constants(0)
            facts = image.facts if image.facts["device"] == "cpu" else _on_device(image.facts, device)
            return LoadedProgram(library, facts, _without_copies(signature), path)
    except (OSError, AttributeError, KeyError, TypeError, ParseError) as error:
        raise CacheError("CPP304", f"{path} is not a library of this package: {error}", _HINT) from error


def _on_device(facts: Mapping[str, Any], index: int | None) -> Mapping[str, Any]:
    """The metadata of a program for a CUDA device, as of one that was captured for the device `index`."""
    captured, chosen = facts["device"], f"cuda:{current_device() if index is None else index}"
    inputs = [{**one, "device": chosen} if one.get("device") == captured else one for one in facts["inputs"]]
    return {**facts, "device": chosen, "inputs": inputs}


def metadata(path: str | Path) -> Mapping[str, Any]:  # Any: JSON
    """What a library or a package says of itself, without running it: `inputs`, `results`, `constants` (their names) and
    `signature`. Raises CacheError CPP304."""
    return find_image(Path(path)).facts


@contextmanager
def _code(code: bytes, name: str) -> Iterator[str]:
    """A name for the dynamic loader, of a copy of the code: what others write into the file later does not reach it. The loader takes
    a name that it knows for the library that it knows: so each load has a name of its own."""
    descriptor = os.memfd_create(name[:200], os.MFD_CLOEXEC)
    try:
        left = memoryview(code)
        while len(left) > 0:
            left = left[os.write(descriptor, left) :]
        yield _new_name(descriptor)
    finally:
        os.close(descriptor)


_numbers = itertools.count()


def _new_name(descriptor: int) -> str:
    """A path of a descriptor that no load had before, although descriptors are used again: a number stands in its slashes."""
    number = "".join("/." if bit == "1" else "//" for bit in f"{next(_numbers):b}")
    return f"/proc{number}/self/fd/{descriptor}"


def _without_copies(signature: ir.Signature) -> ir.Signature:
    """The library itself writes results back; the caller's tensors have been written then."""
    written = dict.fromkeys((*signature.written, *(back.leaf for back in signature.write_backs)))
    return dataclasses.replace(signature, write_backs=(), written=tuple(written))
