"""Adds the compiled runtime of libraries to wheels, which become platform wheels.

Without a compiler, or with HATCH_BUILD_NO_HOOKS=true, the wheel is pure Python. The runtime is then compiled
with the first library.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SCRIPT = Path(__file__).parent / "src" / "cpp_wrapper" / "runtime_build.py"


class RuntimeHook(BuildHookInterface[Any]):
    """The hook `custom` of the wheel target."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # Any: hatchling's own
        """Compiles the runtime and sets the wheel's tag.

        Editable installs have none: their source may change.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="runtime-"))
        compiler = shutil.which(os.environ.get("WRAPPER_IR_CXX") or os.environ.get("CXX") or "g++")
        library, glibc = platform.libc_ver()
        if version == "editable" or sys.platform != "linux" or library != "glibc":
            return
        if compiler is None:
            self.app.display_warning("no C++ compiler: the wheel does not contain the runtime")
            return
        spec = importlib.util.spec_from_file_location("runtime_build", _SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        for runtime in script.PREBUILT:
            output = script.compile_runtime(compiler, runtime, self._folder)
            for file in (output, output.with_suffix(".txt")):
                build_data["force_include"][str(file)] = f"cpp_wrapper/{file.name}"
        major, minor = glibc.split(".")[:2]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes the compiled files."""
        shutil.rmtree(self._folder)
