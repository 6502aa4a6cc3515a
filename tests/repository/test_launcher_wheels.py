"""The launcher of Triton kernels in wheels: compiled in those for a platform, built at first use from the
others.
"""

from __future__ import annotations

import importlib
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "packages" / "triton_runtime"
LIBRARY = "triton_runtime/cuda/launcher.abi3.so"

# Run where the wheel and the core alone are: whether the launcher is there, or why not.
PROBE = """
import sys
from pathlib import Path
from triton_runtime.cuda.extension import load_extension
from triton_runtime.errors import DriverError
from triton_runtime.settings import Settings
from wrapper_ir_runtime.cache import CacheSettings
settings = Settings(cache=CacheSettings(folder=Path(sys.argv[1])), jobs=1, compiler=sys.argv[2])
try:
    print(Path(load_extension(settings).__file__).name)
except DriverError as error:
    print(error.code)
"""


@pytest.fixture(scope="module")
def platform_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source distribution, as releases are."""
    folder = tmp_path_factory.mktemp("wheel")
    (sdist,) = SdistBuilder(str(PACKAGE)).build(directory=str(folder))
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (wheel,) = WheelBuilder(sdist.removesuffix(".tar.gz")).build(directory=str(folder))
    return Path(wheel)


@pytest.fixture(scope="module")
def pure_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds without the launcher's compiler, as `make wheels` does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HATCH_BUILD_NO_HOOKS", "true")
        (wheel,) = WheelBuilder(str(PACKAGE)).build(directory=str(tmp_path_factory.mktemp("pure")))
    return Path(wheel)


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def launcher(wheel: Path, tmp_path: Path, compiler: str, python: str = sys.executable) -> str:
    """The file that is imported where `wheel` is installed in a fresh environment, or an error's code."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    (site,) = tmp_path.glob("env/lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(tmp_path / "env/bin/python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True)
    for name in ("wrapper_ir", "wrapper_ir_lowering", "wrapper_ir_passes", "wrapper_ir_runtime"):
        (site / name).symlink_to(ROOT / "packages" / name / "src" / name)
    command = [str(tmp_path / "env/bin/python"), "-c", PROBE, str(tmp_path / "cache"), compiler]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def test_a_wheel_for_a_platform_needs_no_compiler(platform_wheel: Path, tmp_path: Path) -> None:
    tag = rf"triton_runtime-[\d.]+-cp311-abi3-manylinux_2_\d+_{platform.machine()}\.whl"
    assert re.fullmatch(tag, platform_wheel.name)
    assert LIBRARY in files_of(platform_wheel)
    assert launcher(platform_wheel, tmp_path, "no-such-compiler") == Path(LIBRARY).name
    assert not (tmp_path / "cache").exists()


def test_a_newer_python_takes_the_same_wheel(platform_wheel: Path, tmp_path: Path) -> None:
    found = sorted(Path.home().glob(".pyenv/versions/3.1[23].*/bin/python"))
    if not found:
        pytest.skip("no Python 3.12 or 3.13 here")
    assert launcher(platform_wheel, tmp_path, "no-such-compiler", str(found[-1])) == Path(LIBRARY).name


@pytest.mark.slow
def test_a_pure_wheel_builds_it_at_first_use(pure_wheel: Path, tmp_path: Path) -> None:
    assert pure_wheel.name.endswith("-py3-none-any.whl")
    assert LIBRARY not in files_of(pure_wheel)
    assert launcher(pure_wheel, tmp_path / "1", "no-such-compiler") == "TR501"
    assert launcher(pure_wheel, tmp_path / "2", "g++") == "launcher.so"
    assert list((tmp_path / "2").glob("cache/1/launchers/*/*/launcher.so"))


def test_a_library_that_needs_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PACKAGE)
    platform_tag = importlib.import_module("hatch_build").platform_tag
    source, library = tmp_path / "more.c", tmp_path / "more.so"
    source.write_text("double sqrt(double); double root(double x) { return sqrt(x); }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"], check=True)
    with pytest.raises(ValueError, match=r"needs libm\.so\.6"):
        platform_tag(library)
