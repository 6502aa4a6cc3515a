"""Builds static native libraries, which programs of one file link: an archive and a header.

All objects become one, whose only symbol is the function of the model. Several models can therefore be
linked into one program.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from cpp_wrapper.errors import CacheError, CompileError, EmitError
from cpp_wrapper.library.write import constant_checksums, write_weights
from cpp_wrapper.sources.constants import constant_pieces
from cpp_wrapper.sources.program import Sources
from wrapper_ir.support.files import replacing

SUFFIX = ".a"
_EXPORTS = ("get_api", "random_seed")
"""Functions of a library, after `wir_`; in a static one, after `wir_NAME_`."""
_DATA = """\
.section .rodata
.globl wir_metadata_begin
wir_metadata_begin:
.incbin "metadata.json"
.byte 0
"""
_CONSTANTS = """\
.balign 4096
.globl wir_constants_begin
wir_constants_begin:
.incbin "constants.bin"
.byte 0
.balign 4
.globl wir_checksums_begin
wir_checksums_begin:
.incbin "checksums.bin"
.byte 0
"""
_END = '.section .note.GNU-stack,"",%progbits\n'
_HEADER = """\
/* The model {name}, in {archive}. Link it with the C++ standard library and libm, and with OpenMP's library
 * unless it was built with threads="none": cc main.c {archive} -lstdc++ -lm -lpthread -ldl -lgomp */
#ifndef WRAPPER_IR_MODEL_{guard}_H_
#define WRAPPER_IR_MODEL_{guard}_H_

#include <wrapper_ir/model.h>

#ifdef __cplusplus
extern "C" {{
#endif
const wir_api* wir_{name}_get_api(uint32_t abi);
/* Sets the state of the model's random numbers; only in models that draw some. */
void wir_{name}_random_seed(uint64_t seed);
#ifdef __cplusplus
}}
#endif

#endif
"""


def static_name(path: Path) -> str:
    """Returns the model's name in a static library. Raises EmitError CPP503 if it is not an identifier."""
    name = path.stem.removeprefix("lib")
    if not re.fullmatch(r"[A-Za-z0-9_]+", name):
        hint = "name the file libNAME.a with letters, digits and underscores"
        raise EmitError("CPP503", f"{path.name} does not name a model: {name!r} is not an identifier", hint)
    return name


def write_static(sources: Sources, objects: Sequence[Path], path: Path, compiler: str) -> None:
    """Writes the archive and its header. Raises CompileError CPP106 and CacheError CPP303."""
    name = static_name(path)
    try:
        with TemporaryDirectory(prefix="wir_static_") as folder:
            stage = Path(folder)
            data = _write_data(sources, stage)
            _run(compiler, "-c", data, "-o", stage / "data.o", folder=stage)
            whole = stage / f"{name}.o"
            linked = (stage / "data.o", *objects)
            _run("ld", "-r", "--force-group-allocation", "-o", whole, *linked, folder=stage)
            # "unique" symbols, of inline variables, stay global unless they become weak first
            symbols = _run("nm", "--defined-only", whole, folder=stage).splitlines()
            unique = [line.split()[-1] for line in symbols if line.split()[-2:-1] == ["u"]]
            (stage / "unique.txt").write_text("\n".join(unique) + "\n")
            _run("objcopy", "--weaken-symbols=unique.txt", whole, folder=stage)
            _run("objcopy", *(f"--keep-global-symbol=wir_{one}" for one in _EXPORTS), whole, folder=stage)
            renamed = (f"--redefine-sym=wir_{one}=wir_{name}_{one}" for one in _EXPORTS)
            _run("objcopy", *renamed, whole, folder=stage)
            _run("ar", "rcsD", stage / "model.a", whole, folder=stage)
            if sources.weights is not None:
                write_weights(sources.weights, sources.constants, path.parent)
            with replacing(path) as temporary:
                shutil.copyfile(stage / "model.a", temporary)
            with replacing(path.with_name(f"{name}.h")) as temporary:
                text = _HEADER.format(name=name, archive=path.name, guard=name.upper())
                Path(temporary).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CacheError("CPP303", f"the library cannot be written to {path}: {error}") from error


def _write_data(sources: Sources, folder: Path) -> Path:
    """Writes metadata and constants, and returns an assembler file that includes them."""
    (folder / "metadata.json").write_text(sources.metadata, encoding="utf-8")
    text = _DATA
    if sources.weights is None and sources.constants:
        with open(folder / "constants.bin", "wb") as file:
            for piece in constant_pieces(sources.constants):
                file.write(piece)
        (folder / "checksums.bin").write_bytes(constant_checksums(sources.constants))
        text += _CONSTANTS
    (folder / "data.s").write_text(text + _END)
    return folder / "data.s"


def _run(tool: str, *words: str | Path, folder: Path) -> str:
    """Runs a tool and returns its output."""
    if shutil.which(tool) is None:
        hint = "install binutils, or build a shared library"
        raise CompileError("CPP101", f"no {tool}, which static libraries need", hint)
    command = [tool, *map(str, words)]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        raise CompileError("CPP106", f"{tool} refused the static library: {process.stderr.strip()[:1000]}")
    return process.stdout
