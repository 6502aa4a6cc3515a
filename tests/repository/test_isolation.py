"""Each package's wheel installs alone, with the dependencies that it declares and no others.

Every test creates an empty environment. Declared dependencies are not downloaded again: the closure of a
wheel's `Requires-Dist` is looked up in the environment that runs the tests, and exactly those distributions
are linked into the empty one. (A `.pth` file or `--system-site-packages` would also expose the sibling
packages and every undeclared dependency, which these tests must detect.)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
import torch
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import cpp_wrapper
import wrapper_ir
from tests.cpp.cpp_gpu import KEPT, artifact_for_gpu

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample.wir"
_KIT = ("wrapper_ir", "wrapper_ir_lowering", "wrapper_ir_passes", "wrapper_ir_runtime")
_TOOLS = (*_KIT, "wrapper_ir_tools")
NEEDS = {
    "wrapper_ir": (),
    "wrapper_ir_passes": ("wrapper_ir",),
    "wrapper_ir_lowering": ("wrapper_ir",),
    "wrapper_ir_runtime": ("wrapper_ir", "wrapper_ir_lowering"),
    "wrapper_ir_tools": _KIT,
    "wrapper_ir_torch": ("wrapper_ir", "wrapper_ir_lowering", "wrapper_ir_runtime"),
    "inductor_frontend": (*_TOOLS, "wrapper_ir_torch"),
    "py_wrapper": (*_KIT, "wrapper_ir_torch"),
    "cpp_wrapper": (*_KIT, "wrapper_ir_native"),
    "triton_runtime": _KIT,
    "fx_converter": (*_KIT, "wrapper_ir_torch"),
    "wrapper_ir_native": (),
}
"""The packages of this repository that each one brings."""
PACKAGES = tuple(NEEDS)
DISTRIBUTIONS = {package.replace("_", "-"): package for package in PACKAGES}

# Run inside the isolated environment: the visible packages, and whether every entry point of the package
# loads.
PROBE = f"""
import importlib.util, json, sys
from importlib.metadata import distribution
package = sys.argv[1]
siblings = [name for name in {PACKAGES!r} if name != package and importlib.util.find_spec(name)]
loaded = [point.load() for point in distribution(package).entry_points]
print(json.dumps({{"siblings": siblings, "entry points": len(loaded)}}))
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each package, by import name."""
    folder = tmp_path_factory.mktemp("wheels")
    for package in PACKAGES:
        assert list(WheelBuilder(str(ROOT / "packages" / package)).build(directory=str(folder)))
    return {package: next(folder.glob(f"{package}-*.whl")) for package in PACKAGES}


def run(command: list[str], folder: Path | None = None) -> str:
    """Run `command` away from the repository's own folders; return its output, or fail with its errors."""
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "HATCH", "VIRTUAL_ENV"))
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def requirements(wheel: Path, extra: str = "") -> list[Requirement]:
    """Returns the wheel's declared requirements, for this interpreter and with at most one extra."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    return active(metadata.get_all("Requires-Dist") or [], extra)


def active(lines: list[str], extra: str = "") -> list[Requirement]:
    """Returns the requirements among `lines` that apply here."""
    parsed = [Requirement(line) for line in lines]
    return [one for one in parsed if one.marker is None or one.marker.evaluate({"extra": extra})]


def closure(direct: list[Requirement]) -> Iterator[Distribution]:
    """The third-party distributions that `direct` needs, and those that they need."""
    waiting, seen = list(direct), set(DISTRIBUTIONS)
    while waiting:
        name = canonicalize_name(waiting.pop().name)
        if name not in seen:
            seen.add(name)
            found = distribution(name)
            yield found
            waiting += active(found.requires or [])


def link(found: Distribution, site: Path) -> None:
    """Makes one installed distribution visible in the folder `site`."""
    for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
        target = Path(str(found.locate_file(top))).resolve()
        if target.exists() and not (site / top).exists():
            (site / top).symlink_to(target)


def install(package: str, wheels: dict[str, Path], folder: Path, extra: str = "") -> Path:
    """An empty environment with `package`, the siblings that it declares, and its other dependencies linked
    in.

    Returns the environment's interpreter.
    """
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    python = folder / "bin" / "python"
    declared = requirements(wheels[package], extra)
    siblings = sibling_closure(declared, wheels)
    for found in closure(declared + [one for name in siblings for one in requirements(wheels[name])]):
        [site] = folder.glob("lib/python*/site-packages")
        link(found, site)
    chosen = [wheels[name] for name in (package, *siblings)]
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    run([*pip, "install", "--quiet", "--no-index", "--no-deps", *map(str, chosen)])
    run([*pip, "check"])
    return python


def declared_siblings(declared: list[Requirement]) -> list[str]:
    """The packages of this repository among `declared`, by import name."""
    return [DISTRIBUTIONS[one.name] for one in declared if one.name in DISTRIBUTIONS]


def sibling_closure(declared: list[Requirement], wheels: dict[str, Path]) -> list[str]:
    """The packages of this repository that `declared` needs, and those that they need."""
    found: list[str] = []
    waiting = declared_siblings(declared)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.append(name)
            waiting += declared_siblings(requirements(wheels[name]))
    return sorted(found)


def declared_entry_points(wheel: Path) -> int:
    """Returns the number of the wheel's entry points."""
    with zipfile.ZipFile(wheel) as archive:
        files = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        return sum(archive.read(name).decode().count(" = ") for name in files)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_holds_the_package_and_its_papers(package: str, wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels[package]) as archive:
        names = archive.namelist()
    assert f"{package}/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {package}
    source = ROOT / "packages" / package / "src"
    written = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert written <= set(names)


@pytest.mark.parametrize("package", PACKAGES[1:])
def test_a_wheel_imports_with_its_declared_dependencies(
    package: str, wheels: dict[str, Path], tmp_path: Path
) -> None:
    shared = sorted(NEEDS[package])
    assert sibling_closure(requirements(wheels[package]), wheels) == shared
    python = install(package, wheels, tmp_path / "env")
    assert json.loads(run([str(python), "-c", PROBE, package], tmp_path)) == {
        "siblings": [name for name in PACKAGES if name in shared],
        "entry points": declared_entry_points(wheels[package]),
    }


CPP_WITHOUT_TORCH = """
import os, pathlib, sys
os.environ["WRAPPER_IR_CACHE_DIR"] = sys.argv[1] + "/cache"
import cpp_wrapper
from cpp_wrapper.library import build
from wrapper_ir import load, parse_program
from wrapper_ir.artifact import bare_artifact
mm = "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
text = f'wir 0.5\\ntarget cpu\\nextern "{mm}"\\nfunc @main(%x: f32[4, 4]) {{\\n  %y = alloc f32[4, 4]\\n'
artifact = bare_artifact(parse_program(text + "  call aten::mm.out(%x, %x, out=%y)\\n  return %y\\n}\\n"))
compile_object, compiled = build.compile_object, []
build.compile_object = lambda recipe, unit, limit: (compiled.append(unit.what), compile_object(recipe, unit, limit))
package = cpp_wrapper.build(artifact, sys.argv[1] + "/m.pt2")
print(compiled)
cpp_wrapper.build(artifact, sys.argv[1] + "/project", source_only=True)
print(cpp_wrapper.metadata(package)["results"], "torch" in sys.modules)
try:
    cpp_wrapper.load(package)
except cpp_wrapper.CppError as error:
    print(error.code)
of_gpu = load(sys.argv[2])
package = cpp_wrapper.build(of_gpu, sys.argv[1] + "/gpu.pt2")
print(cpp_wrapper.metadata(package)["device"], "torch" in sys.modules)
pathlib.Path(sys.argv[1], "gpu.cpp").write_text(str(cpp_wrapper.emit(of_gpu)))
"""


def test_packages_are_built_without_torch(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Packages are built without torch and run here, with it.

    One for a GPU contains its kernels' code, and equals the one built beside torch. The wheel contains the
    compiled runtime.
    """
    assert not wheels["cpp_wrapper"].name.endswith("-any.whl")
    with_torch = {one.name for one in requirements(wheels["cpp_wrapper"], "torch")}
    assert with_torch == {
        "torch",
        "wrapper-ir-torch",
        *(name.replace("_", "-") for name in NEEDS["cpp_wrapper"]),
    }
    python = install("cpp_wrapper", wheels, tmp_path / "env")
    assert run([str(python), "-c", "import importlib.util as i; print(i.find_spec('torch'))"]) == "None\n"
    of_gpu = artifact_for_gpu(KEPT)
    wrapper_ir.save(of_gpu, tmp_path / "gpu.wir")
    text = run([str(python), "-c", CPP_WITHOUT_TORCH, str(tmp_path), str(tmp_path / "gpu.wir")])
    assert text.split("\n")[:4] == ["['program.cpp']", "['tensor'] False", "CPP580", "cuda:0 False"]
    beside_torch = cpp_wrapper.emit(of_gpu, options=cpp_wrapper.CppOptions(oldest_torch=(2, 11)))
    assert (tmp_path / "gpu.cpp").read_text() == str(beside_torch)
    found = cpp_wrapper.load(tmp_path / "m.pt2")(torch.eye(4) * 3)
    torch.testing.assert_close(found[0], torch.eye(4) * 9)
    assert (tmp_path / "project" / "CMakeLists.txt").exists()


CORE_ALONE = """
import sys, wrapper_ir
program = wrapper_ir.load(sys.argv[1]).program
wrapper_ir.verify(program)
again = wrapper_ir.parse_program(wrapper_ir.print_program(program))
print(again == program, wrapper_ir.from_json(wrapper_ir.to_json(program)) == program, "torch" in sys.modules)
"""


def test_the_core_needs_nothing(wheels: dict[str, Path], tmp_path: Path) -> None:
    """It parses, verifies, prints and compares by value.

    Sympy is its one extra besides the one for models.
    """
    assert requirements(wheels["wrapper_ir"]) == []
    python = install("wrapper_ir", wheels, tmp_path / "env")
    assert run([str(python), "-c", CORE_ALONE, str(SAMPLE)]).split() == ["True", "True", "False"]
    code = "import wrapper_ir.expr.sympy_bridge"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    assert done.stderr.endswith("ModuleNotFoundError: sympy is missing: pip install 'wrapper-ir[sympy]'\n")


SMALL_EMITTER = """
import sys, wrapper_ir
from wrapper_ir_lowering import LoweringOptions, lower, steps

def write(step):
    match step:
        case steps.Allocate():
            return f"{step.result.name} = allocate({step.type})"
        case steps.Launch():
            return f"{step.kernel.name}(...)"
        case steps.CallOperator():
            return f"{step.operator}(...)"
        case steps.Return():
            return "return"
        case _:
            return f"# {type(step).__name__}"

plan = lower(wrapper_ir.load(sys.argv[1]), LoweringOptions())
for function in plan.functions:
    print(f"def {function.name}():")
    print(*("    " + write(step) for step in function.steps), sep="\\n")
"""


def test_an_emitter_needs_the_core_and_plans(wheels: dict[str, Path], tmp_path: Path) -> None:
    python = install("wrapper_ir_lowering", wheels, tmp_path / "env")
    text = run([str(python), "-c", SMALL_EMITTER, str(SAMPLE)])
    assert text.startswith("def main():\n")
    assert text.endswith("    return\n")


def test_the_command_line_in_an_empty_environment(wheels: dict[str, Path], tmp_path: Path) -> None:
    python = install("wrapper_ir_tools", wheels, tmp_path / "env")
    wir = str(python.with_name("wir"))
    text = run([wir, "print", str(SAMPLE)], tmp_path)
    assert "func" in text
    run([wir, "verify", str(SAMPLE)], tmp_path)
    assert "peak" in run([wir, "stats", str(SAMPLE)], tmp_path)
    run([wir, "diff", str(SAMPLE), str(SAMPLE)], tmp_path)
