"""Loading of emitted modules.

The module is first written to the cache on disk, so that debuggers, profilers and tracebacks find its source
under a stable name. Constants stay in memory.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import inspect
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import torch

from py_wrapper.emit.program import EmittedModule
from py_wrapper.errors import CacheError
from py_wrapper.options import PyOptions
from wrapper_ir.artifact import Artifact
from wrapper_ir_runtime import ModuleContents, keep_from_dynamo
from wrapper_ir_runtime.cache import open_cache, read_settings
from wrapper_ir_torch import resolve


def place_in_cache(emitted: EmittedModule, options: PyOptions) -> Path:
    """Returns the module's file in the cache, and writes it if it is missing; raises CacheError PY201,
    StoreError."""
    texts = {f"{emitted.name}.py": emitted.source, **emitted.files}
    digest = hashlib.sha256()
    for name in sorted(texts):
        digest.update(f"\0{name}\0{texts[name]}".encode("utf-8", "surrogatepass"))
    settings = read_settings()
    if options.cache_folder is not None:
        settings = settings.with_root(options.cache_folder)
    try:
        store = open_cache(settings).store("python")
        with store.ensure(digest.hexdigest(), lambda folder: write_files(folder, emitted)) as entry:
            return entry.folder / f"{emitted.name}.py"
    except UnicodeEncodeError as error:
        raise CacheError("PY201", f"the module is not text that a file can store: {error}") from error


def write_files(folder: Path, emitted: EmittedModule) -> list[Path]:
    """Writes the module and its kernels, each file atomically, the module last. Returns the files, the module
    first."""
    files = [_write(folder / name, text) for name, text in emitted.files.items()]
    return [_write(folder / f"{emitted.name}.py", emitted.source), *files]


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def load_module(emitted: EmittedModule, artifact: Artifact, options: PyOptions) -> ModuleType:
    """Executes the module with the artifact's constants in memory.

    It is not added to `sys.modules`: each load creates another module, with separate state.
    """
    for extern in emitted.externs:
        resolve(extern)  # raises NotSupportedError before anything else happens
    path = place_in_cache(emitted, options)
    contents = ModuleContents(
        kernels=emitted.kernels,
        target=artifact.program.target,
        constants=_buffers(artifact),
        handles=artifact.handles,
        find_runtime=options.find_runtime,
        binaries=artifact.binaries,
        files=artifact.mapped_files(),
    )
    spec = importlib.machinery.ModuleSpec(emitted.name, None, origin=str(path), loader_state=contents)
    module = ModuleType(emitted.name)
    module.__spec__ = spec
    module.__file__ = str(path)
    exec(compile(emitted.source, str(path), "exec"), module.__dict__)
    # Dynamo would import the module by name to trace it, and cannot observe the writes of kernels.
    keep_from_dynamo(torch, module.forward, inspect.unwrap(module.forward), module.boxed)
    return module


def _buffers(artifact: Artifact) -> Mapping[str, memoryview]:
    return {name: data.buffer.cast("B") for name, data in artifact.constants.items()}
