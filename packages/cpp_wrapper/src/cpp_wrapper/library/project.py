"""Writes a library's sources as a CMake project that does not need this package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from cpp_wrapper.errors import CacheError
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.toolchain import Toolchain, kernel_recipe, library_recipe
from cpp_wrapper.library.build import EXPORTS, PARTS, needed_libraries
from cpp_wrapper.library.write import constant_checksums
from cpp_wrapper.sources.program import Sources

_HEAD = """\
# A library of a program with AOTInductor's interface, for torch's runners and cpp_wrapper's C++ runner.
#
#   cmake -S . -B build -DTORCH_INCLUDE_DIR=.../torch/include && cmake --build build
#
# Only kernels need TORCH_INCLUDE_DIR, for headers. The library is linked with stubs of torch's libraries.
# CMAKE_CXX_FLAGS are appended to each unit's flags. To compile for another machine, use a toolchain file; the
# kernels must have been written for its instruction set.
cmake_minimum_required(VERSION 3.18)
project(model LANGUAGES C CXX ASM)
set(TORCH_INCLUDE_DIR "" CACHE PATH "The folder of torch's headers")
# once more, after each unit's own flags: the last one counts
separate_arguments(OWN_FLAGS NATIVE_COMMAND "${CMAKE_CXX_FLAGS}")
"""
_LIBRARY = """\
foreach(stub IN ITEMS {stubs})
  add_library(${{stub}}_stub SHARED stub.c)
  set_target_properties(${{stub}}_stub PROPERTIES OUTPUT_NAME ${{stub}} LIBRARY_OUTPUT_DIRECTORY stub)
endforeach()
add_library(model SHARED {units} constants.s)
set(EXPORTS ${{CMAKE_CURRENT_SOURCE_DIR}}/exports.map)
set_target_properties(model PROPERTIES PREFIX "" BUILD_WITH_INSTALL_RPATH ON LINK_DEPENDS ${{EXPORTS}})
target_include_directories(model PRIVATE .)
target_link_options(model PRIVATE -Wl,--version-script=${{EXPORTS}} -Wl,--no-as-needed -Wl,--gc-sections)
foreach(stub IN ITEMS {stubs})
  target_link_libraries(model PRIVATE ${{stub}}_stub)
endforeach()
find_package(OpenMP)
if(OpenMP_CXX_FOUND)
  target_link_libraries(model PRIVATE OpenMP::OpenMP_CXX)
endif()
set_source_files_properties(constants.s PROPERTIES COMPILE_OPTIONS "-I${{CMAKE_CURRENT_SOURCE_DIR}}"
  OBJECT_DEPENDS "${{CMAKE_CURRENT_SOURCE_DIR}}/constants.bin;${{CMAKE_CURRENT_SOURCE_DIR}}/checksums.bin")
"""
_KERNELS = """\
if(NOT EXISTS "${TORCH_INCLUDE_DIR}/torch/csrc/inductor/cpp_prefix.h")
  message(FATAL_ERROR "The kernels include torch's headers: set -DTORCH_INCLUDE_DIR=.../torch/include")
endif()
set(TORCH_API_INCLUDE_DIR ${TORCH_INCLUDE_DIR}/torch/csrc/api/include)
target_include_directories(model SYSTEM PRIVATE ${TORCH_INCLUDE_DIR} ${TORCH_API_INCLUDE_DIR})
"""
_CONSTANTS = """\
.section .rodata
.balign 4096
.globl wir_constants_begin
.hidden wir_constants_begin
wir_constants_begin:
.incbin "constants.bin"
.byte 0
.balign 4
.globl wir_checksums_begin
.hidden wir_checksums_begin
wir_checksums_begin:
.incbin "checksums.bin"
.byte 0
.section .note.GNU-stack,"",%progbits
"""
_GCC_ONLY = ("-fexcess-precision=fast", "-fno-tree-loop-vectorize")
"""Flags that other compilers do not support."""
_OPENMP = ("-fopenmp",)  # found by CMake


def cmake_prefix_path() -> Path:
    """Returns the folder of the C++ runner's CMake package, for `CMAKE_PREFIX_PATH`."""
    return Path(__file__).parents[1] / "cmake"


def write_project(sources: Sources, folder: Path, options: CppOptions) -> Path:
    """Writes the sources, the constants and a CMakeLists.txt. Raises CacheError CPP303."""
    files = {
        **sources.files,
        "exports.map": EXPORTS,
        "constants.s": _CONSTANTS,
        "metadata.json": sources.metadata,
    }
    files["stub.c"] = "/* torch's library is in the process when the model is loaded. */\n"
    files["CMakeLists.txt"] = _cmake(sources, options)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as name:
            stage = Path(name)
            with open(stage / "constants.bin", "wb") as file:
                for blob in sources.constants:
                    file.seek(blob.offset)
                    file.write(blob.data)
            (stage / "checksums.bin").write_bytes(constant_checksums(sources.constants))
            for name, text in files.items():
                (stage / name).write_text(text, encoding="utf-8")
            folder.mkdir(exist_ok=True)
            for path in stage.iterdir():  # replace files of an older project only after all are written
                path.replace(folder / path.name)
    except OSError as error:
        raise CacheError("CPP303", f"the project cannot be written to {folder}: {error}") from error
    return folder


def _cmake(sources: Sources, options: CppOptions) -> str:
    compiler = Toolchain(command="", version="")
    units = [name for name in PARTS if name in sources.files]
    flags = {name: library_recipe(compiler, options).flags for name in units}
    flags |= {unit.name: kernel_recipe(compiler, unit.flags, options).flags for unit in sources.units}
    text = _HEAD + _LIBRARY.format(units=" ".join(flags), stubs=" ".join(needed_libraries(sources)))
    lines = [
        f'set_source_files_properties({name} PROPERTIES COMPILE_OPTIONS "{_options(f)};${{OWN_FLAGS}}")'
        for name, f in flags.items()
    ]
    needs_torch = any("#include <torch/" in sources.files[unit.name] for unit in sources.units)
    return text + (_KERNELS if needs_torch else "") + "\n".join(lines) + "\n"


def _options(flags: Sequence[str]) -> str:
    """Returns a unit's flags as a CMake list."""
    return ";".join(
        f"$<$<CXX_COMPILER_ID:GNU>:{flag}>" if flag in _GCC_ONLY else flag
        for flag in flags
        if flag not in _OPENMP
    )
