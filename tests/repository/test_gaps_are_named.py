"""mypy names each place that a new op, a new step or a missing function of an emitter leaves open."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "wrapper_ir",
    "wrapper_ir_lowering",
    "wrapper_ir_runtime",
    "py_wrapper",
    "fx_converter",
    "cpp_wrapper",
)
CHECKED = (
    "wrapper_ir_lowering/src/wrapper_ir_lowering/writers.py",
    "wrapper_ir_lowering/src/wrapper_ir_lowering/rules/table.py",
    "wrapper_ir_runtime/src/wrapper_ir_runtime/interp/handlers.py",
    "wrapper_ir_runtime/src/wrapper_ir_runtime/interp/engine.py",
    "py_wrapper/src/py_wrapper/emit/table.py",
    "fx_converter/src/fx_converter/graph/table.py",
    "cpp_wrapper/src/cpp_wrapper/sources/table.py",
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages' sources with the configuration of mypy."""
    folder = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        shutil.copytree(ROOT / "packages" / name / "src", folder / "packages" / name / "src")
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def edited(tree: Path) -> Iterator[dict[str, str]]:
    """Files to change, by path: the test adds its changes, and all files are restored afterwards."""
    before: dict[str, str] = {}
    yield before
    for name, text in before.items():
        (tree / name).write_text(text, encoding="utf-8")


def edit(tree: Path, before: dict[str, str], name: str, old: str, new: str) -> None:
    path = tree / "packages" / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    before.setdefault(f"packages/{name}", text)
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def findings(tree: Path) -> str:
    """mypy's findings in the files that consume ops and steps."""
    path = os.pathsep.join(str(tree / "packages" / name / "src") for name in COPIED)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", str(tree / "cache")]
    done = subprocess.run(
        [*command, *(f"packages/{name}" for name in CHECKED)],
        cwd=tree,
        env={**os.environ, "MYPYPATH": path},
        capture_output=True,
        text=True,
    )
    return done.stdout


def test_nothing_is_missing(tree: Path) -> None:
    assert "Success" in findings(tree)


def test_a_function_that_an_emitter_lacks(tree: Path, edited: dict[str, str]) -> None:
    name = "py_wrapper/src/py_wrapper/emit/debug.py"
    edit(tree, edited, name, "def show_line(", "def show_lines(")
    found = findings(tree)
    assert "py_wrapper/emit/table.py" in found
    assert "show_line" in found


def test_a_function_of_another_step(tree: Path, edited: dict[str, str]) -> None:
    name = "cpp_wrapper/src/cpp_wrapper/sources/debug.py"
    edit(tree, edited, name, "def show_line(step: steps.ShowLine", "def show_line(step: steps.SaveValue")
    found = findings(tree)
    assert "cpp_wrapper/sources/table.py" in found
    assert "show_line" in found


def test_a_new_step(tree: Path, edited: dict[str, str]) -> None:
    """The dispatch is named first; once the protocol has the function, so is each emitter."""
    steps = "wrapper_ir_lowering/src/wrapper_ir_lowering/steps/debug.py"
    edit(tree, edited, steps, "DebugStep = ShowLine", NEW_STEP + "DebugStep = Beep | ShowLine")
    face = "wrapper_ir_lowering/src/wrapper_ir_lowering/steps/__init__.py"
    edit(tree, edited, face, "import Comment", "import Beep, Comment")
    edit(tree, edited, face, "__all__ = [", '__all__ = [\n    "Beep",')
    assert "writers.py" in findings(tree)
    writers = "wrapper_ir_lowering/src/wrapper_ir_lowering/writers.py"
    function = "    def show_line("
    edit(
        tree,
        edited,
        writers,
        function,
        "    def beep(self, step: steps.Beep, scope: S, /) -> None: ...\n" + function,
    )
    case = "        case steps.ShowLine():"
    edit(
        tree,
        edited,
        writers,
        case,
        "        case steps.Beep():\n            writers.debug.beep(step, scope)\n" + case,
    )
    found = findings(tree)
    assert "writers.py" not in found
    for table in ("py_wrapper/emit/table.py", "fx_converter/graph/table.py", "cpp_wrapper/sources/table.py"):
        assert table in found
    assert found.count("beep") == 3


def test_a_new_op(tree: Path, edited: dict[str, str]) -> None:
    ops = "wrapper_ir/src/wrapper_ir/ir/ops/debug.py"
    edit(tree, edited, ops, "DebugOp = ", NEW_OP + "DebugOp = Beep | ")
    found = findings(tree)
    assert "rules/table.py" in found
    assert "interp/engine.py" in found


NEW_STEP = '''@dataclass(frozen=True, slots=True, kw_only=True)
class Beep(StepBase):
    """Beeps."""


'''
NEW_OP = '''@dataclass(frozen=True, slots=True, kw_only=True)
class Beep(OpBase):
    """Beeps."""


'''
