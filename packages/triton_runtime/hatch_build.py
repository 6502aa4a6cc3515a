"""Adds the compiled launcher to wheels, which are then for a platform and every Python from 3.11 on.

Without a compiler, or with HATCH_BUILD_NO_HOOKS=true, the wheel is a pure one, and the launcher is built at
first use.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SCRIPT = Path(__file__).parent / "src" / "triton_runtime" / "cuda" / "launcher_build.py"
_OLDEST = 17
"""The oldest minor version of glibc 2 that a tag can name."""
_FOUND_AT_RUN_TIME = re.compile(r"_?Py\w+|__gmon_start__|_ITM_\w+|__cxa_finalize|\w+@GLIBC_2\.\d+(\.\d+)?")


class LauncherHook(BuildHookInterface[Any]):
    """The wheel target's hook `custom`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # Any: hatchling's own
        """Compiles the launcher and sets the wheel's tag. Editable installs get none: their source may
        change.
        """
        compiler = shutil.which(os.environ.get("WRAPPER_IR_CXX") or os.environ.get("CXX") or "g++")
        self._folder = Path(tempfile.mkdtemp(prefix="launcher-"))
        if version == "editable" or sys.platform != "linux":
            return
        if compiler is None:
            self.app.display_warning("no C++ compiler: the wheel is without the launcher")
            return
        spec = importlib.util.spec_from_file_location("launcher_build", _SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        output = self._folder / script.PREBUILT.name
        subprocess.run(script.compile_command(compiler, output), check=True)
        build_data["force_include"][str(output)] = f"triton_runtime/cuda/{output.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform_tag(output)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes the compiled files."""
        shutil.rmtree(self._folder)


def platform_tag(library: Path) -> str:
    """The manylinux tag (PEP 600) of a library that needs only Python and glibc.

    Raises ValueError otherwise.
    """
    dynamic = _output("readelf", "-dW", str(library))
    libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    table = _output("readelf", "--dyn-syms", "-W", str(library))
    missing = [line.split()[7] for line in table.splitlines() if " UND " in line and len(line.split()) > 7]
    others = [name for name in missing if not _FOUND_AT_RUN_TIME.fullmatch(name)]
    if others or set(libraries) - {"libc.so.6"}:
        raise ValueError(f"the launcher needs {', '.join([*others, *libraries])}")
    minors = [int(minor) for name in missing for minor in re.findall(r"@GLIBC_2\.(\d+)", name)]
    return f"manylinux_2_{max([_OLDEST, *minors])}_{platform.machine()}"


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
