"""Writes a library's sources as a CMake project that does not need this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from cpp_wrapper.errors import CacheError
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.toolchain import Toolchain, kernel_recipe, library_recipe, operator_recipe
from cpp_wrapper.library.build import EXPORTS, NATIVE_EXPORTS, PARTS, needed_libraries
from cpp_wrapper.library.write import constant_checksums, write_weights
from cpp_wrapper.runtime_build import NATIVE_RUNTIME, RUNTIME
from cpp_wrapper.sources.program import Sources
from cpp_wrapper.sources.version import NATIVE

_HEAD = """\
# {about}
#
#   cmake -S . -B build -DTORCH_INCLUDE_DIR=.../torch/include && cmake --build build
#
# Only kernels need TORCH_INCLUDE_DIR, for headers.
# CMAKE_CXX_FLAGS are appended to each unit's flags. To compile for another machine, use a toolchain file; the
# kernels must have been written for its instruction set.
cmake_minimum_required(VERSION 3.18)
project(model LANGUAGES C CXX ASM)
set(TORCH_INCLUDE_DIR "" CACHE PATH "The folder of torch's headers")
# once more, after each unit's own flags: the last one counts
separate_arguments(OWN_FLAGS NATIVE_COMMAND "${CMAKE_CXX_FLAGS}")
"""
_ABOUT = {
    "torch": "A library of a program with AOTInductor's interface, for torch's runners and cpp_wrapper's C++ "
    "runner.\n# It is linked with stubs of torch's libraries.",
    NATIVE: "A library of a program that needs no torch, for programs in C and C++: `wrapper_ir/model.h`.",
}
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
_NATIVE = """\
add_library(model SHARED {units} {objects} constants.s)
set(EXPORTS ${{CMAKE_CURRENT_SOURCE_DIR}}/exports.map)
set_target_properties(model PROPERTIES PREFIX "" BUILD_WITH_INSTALL_RPATH ON LINK_DEPENDS ${{EXPORTS}})
target_include_directories(model PRIVATE .)
target_link_options(model PRIVATE -Wl,--version-script=${{EXPORTS}} -Wl,--gc-sections -Wl,-z,defs {flags})
target_link_libraries(model PRIVATE ${{CMAKE_DL_LIBS}})
set_source_files_properties(constants.s PROPERTIES COMPILE_OPTIONS "-I${{CMAKE_CURRENT_SOURCE_DIR}}"
  OBJECT_DEPENDS "{data}")
"""
_OPENMP_LINES = """find_package(OpenMP REQUIRED)
foreach(part IN ITEMS model {targets})
  target_link_libraries(${{part}} PRIVATE OpenMP::OpenMP_CXX)
endforeach()
"""
_OBJECTS = """\
add_library({name} OBJECT {units})
set_target_properties({name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories({name} PRIVATE .)
target_compile_options({name} PRIVATE {flags} ${{OWN_FLAGS}})
"""
# As `join_objects`: functions of an instruction set are not visible to others.
_LEVEL = """\
set(JOINED ${{CMAKE_CURRENT_BINARY_DIR}}/{name}.o)
add_custom_command(OUTPUT ${{JOINED}} DEPENDS {name} $<TARGET_OBJECTS:{name}> VERBATIM COMMAND_EXPAND_LISTS
  COMMAND ${{CMAKE_CXX_COMPILER}} -r -nostdlib -Wl,--force-group-allocation -o ${{JOINED}}
  $<TARGET_OBJECTS:{name}>
  COMMAND ${{CMAKE_OBJCOPY}} --wildcard "--keep-global-symbol=*wir_op_*" --keep-global-symbol=wir_random_seed
  ${{JOINED}})
set_source_files_properties(${{JOINED}} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
target_sources(model PRIVATE ${{JOINED}})
"""
_METADATA = """\
.section .rodata
.globl wir_metadata_begin
.hidden wir_metadata_begin
wir_metadata_begin:
.incbin "metadata.json"
.globl wir_is_shared
.hidden wir_is_shared
wir_is_shared:
.byte 0
.section .note.GNU-stack,"",%progbits
"""
_KERNELS = """\
if(NOT EXISTS "${TORCH_INCLUDE_DIR}/torch/csrc/inductor/cpp_prefix.h")
  message(FATAL_ERROR "The kernels include torch's headers: set -DTORCH_INCLUDE_DIR=.../torch/include")
endif()
set(TORCH_API_INCLUDE_DIR ${TORCH_INCLUDE_DIR}/torch/csrc/api/include)
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
    files = {**sources.files, "metadata.json": sources.metadata}
    if sources.runtime == NATIVE:
        constants = "" if sources.weights is not None else _CONSTANTS
        files |= {"exports.map": NATIVE_EXPORTS, "constants.s": _METADATA + constants}
        files["CMakeLists.txt"] = _native_cmake(sources, options)
    else:
        files |= {"exports.map": EXPORTS, "constants.s": _CONSTANTS}
        files["stub.c"] = "/* torch's library is in the process when the model is loaded. */\n"
        files["CMakeLists.txt"] = _cmake(sources, options)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as name:
            stage = Path(name)
            _write_constants(sources, stage)
            for name, text in files.items():
                (stage / name).write_text(text, encoding="utf-8")
            folder.mkdir(exist_ok=True)
            for path in stage.iterdir():  # replace files of an older project only after all are written
                path.replace(folder / path.name)
    except OSError as error:
        raise CacheError("CPP303", f"the project cannot be written to {folder}: {error}") from error
    return folder


def _write_constants(sources: Sources, stage: Path) -> None:
    if sources.weights is not None:
        return write_weights(sources.weights, sources.constants, stage)
    with open(stage / "constants.bin", "wb") as file:
        for blob in sources.constants:
            file.seek(blob.offset)
            file.write(blob.data)
    (stage / "checksums.bin").write_bytes(constant_checksums(sources.constants))
    return None


def _cmake(sources: Sources, options: CppOptions) -> str:
    compiler = Toolchain(command="", version="")
    units = [name for name in PARTS if name in sources.files]
    flags = {name: library_recipe(compiler, options).flags for name in units}
    flags |= {unit.name: kernel_recipe(compiler, unit.flags, options).flags for unit in sources.units}
    text = _head(sources) + _LIBRARY.format(units=" ".join(flags), stubs=" ".join(needed_libraries(sources)))
    return text + _torch_headers(sources, ["model"]) + _unit_options(flags)


def _unit_options(flags: Mapping[str, Sequence[str]]) -> str:
    return "".join(
        f'set_source_files_properties({name} PROPERTIES COMPILE_OPTIONS "{_options(f)};${{OWN_FLAGS}}")\n'
        for name, f in flags.items()
    )


def _head(sources: Sources) -> str:
    return _HEAD.replace("{about}", _ABOUT[sources.runtime])


def _torch_headers(sources: Sources, targets: Sequence[str]) -> str:
    """Returns lines that find torch's headers for the kernels in targets, if any includes them."""
    needs_torch = any("#include <torch/" in sources.files[unit.name] for unit in sources.units)
    include = (
        "target_include_directories({0} SYSTEM PRIVATE ${{TORCH_INCLUDE_DIR}} ${{TORCH_API_INCLUDE_DIR}})\n"
    )
    return _KERNELS + "".join(map(include.format, targets)) if needs_torch else ""


def _native_cmake(sources: Sources, options: CppOptions) -> str:
    """Returns the project of a native library: a part for each set of flags of operators and kernels.

    The linker uses the first copy of an inline function, so parts follow files without instruction sets.
    """
    compiler = Toolchain(command="", version="")
    recipe = library_recipe(compiler, options).flags
    own = [name for name in PARTS if name not in RUNTIME]
    units = [name for name in (*own, *NATIVE_RUNTIME) if name in sources.files]
    operators: dict[tuple[int | None, tuple[str, ...]], list[str]] = {}
    for family in sources.families:
        operators.setdefault((family.level, family.flags), []).append(family.name)
    kernels: dict[tuple[str, ...], list[str]] = {}
    for unit in sources.units:
        kernels.setdefault(unit.flags, []).append(unit.name)
    parts, joined, texts = list[str](), list[str](), list[str]()
    for number, ((level, flags), names) in enumerate(operators.items()):
        name = f"operators_{number}"
        of_level = () if level is None else (f"-DWIR_LEVEL=_{level}",)
        texts.append(_objects(name, names, operator_recipe(compiler, (*flags, *of_level), options).flags))
        (parts if level is None else joined).append(name)
    for number, (flags, names) in enumerate(kernels.items()):
        texts.append(_objects(f"kernels_{number}", names, kernel_recipe(compiler, flags, options).flags))
        parts.append(f"kernels_{number}")
    folder = "${CMAKE_CURRENT_SOURCE_DIR}"
    data = ["metadata.json"] + (["constants.bin", "checksums.bin"] if sources.weights is None else [])
    library = _NATIVE.format(
        units=" ".join(units),
        objects=" ".join(f"$<TARGET_OBJECTS:{name}>" for name in parts),
        flags="-static-libstdc++ -static-libgcc" if options.static_runtime else "",
        data=";".join(f"{folder}/{name}" for name in data),
    )
    if sources.weights is not None:
        library += f"configure_file({sources.weights.file} {sources.weights.file} COPYONLY)\n"
    openmp = "" if options.threads == "none" else _OPENMP_LINES.format(targets=" ".join((*parts, *joined)))
    headers = _torch_headers(sources, [name for name in parts if name.startswith("kernels")])
    levels = "".join(_LEVEL.format(name=name) for name in joined)
    of_units = _unit_options(dict.fromkeys(units, recipe))
    return _head(sources) + "".join(texts) + library + levels + headers + openmp + of_units


def _objects(name: str, units: Sequence[str], flags: Sequence[str]) -> str:
    return _OBJECTS.format(name=name, units=" ".join(units), flags=_options(flags).replace(";", " "))


def _options(flags: Sequence[str]) -> str:
    """Returns a unit's flags as a CMake list."""
    return ";".join(
        f"$<$<CXX_COMPILER_ID:GNU>:{flag}>" if flag in _GCC_ONLY else flag
        for flag in flags
        if flag not in _OPENMP
    )
