"""Patch points of torch: listed, present in this torch, and always restored."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch.utils._triton import has_triton_package

import inductor_frontend
from inductor_frontend.torch_patches import replaced as module
from inductor_frontend.torch_patches import table
from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import PATCH_POINTS, PatchPoint

SOURCE = Path(inductor_frontend.__file__).parent
NAMES = {name: value for name, value in vars(table).items() if isinstance(value, PatchPoint)}


class Base:
    inherited = "of the base"


class Torch(Base):
    """Stands in for a class of torch."""

    one = 1
    two: object = property(lambda self: 2)


POINT = PatchPoint(f"{__name__}:Torch", "one two inherited added", "a test", adds=True)
CHANGES = (POINT.by(one=10, two=20), POINT.by(inherited="replaced", added=30, one=100))


def state() -> dict[str, Any]:
    return dict(vars(Torch))


def sources() -> Iterator[tuple[Path, str]]:
    for path in SOURCE.rglob("*.py"):
        yield path, path.read_text()


class TestTable:
    @pytest.mark.parametrize("name", NAMES)
    def test_every_place_is_in_this_torch_and_is_used(self, name: str) -> None:
        point = NAMES[name]
        assert point.why
        assert any(name in text for path, text in sources() if path.name != "table.py"), "nobody uses it"
        if point.owner.startswith("triton.") and not has_triton_package():
            pytest.skip("no Triton")
        version = ".".join(torch.__version__.split(".")[:2])
        if "to" in point.versions or version in point.versions:
            owner = point.find()
            assert point.may_lack or point.adds or all(hasattr(owner, n) for n in point.names)

    def test_all_are_listed(self) -> None:
        assert tuple(NAMES.values()) == PATCH_POINTS
        owned = [(point.owner, name) for point in PATCH_POINTS for name in point.names]
        assert len(owned) == len(set(owned))

    def test_nothing_else_replaces_anything(self) -> None:
        """Sources contain no mock, and no assignment to an attribute of a module of torch."""
        for path, text in sources():
            tree = ast.parse(text)
            imported = {
                a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names
            }
            for node in ast.walk(tree):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    names = {getattr(node, "module", None), *(a.name for a in node.names)}
                    assert not names & {"mock", "unittest", "unittest.mock"}, f"{path}:{node.lineno}"
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    root: ast.expr = node
                    while isinstance(root, ast.Attribute):
                        root = root.value
                    module_like = isinstance(root, ast.Name) and root.id in imported
                    assert not module_like, f"{path}:{node.lineno} assigns {ast.unparse(node)}"
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "delattr"):
                    assert path.parent.name == "torch_patches", f"{path}:{node.lineno}"

    def test_what_is_not_listed_cannot_be_replaced(self) -> None:
        with pytest.raises(AssertionError, match="not listed"):
            POINT.by(three=3)


class TestReplaced:
    def test_only_inside(self) -> None:
        before = state()
        with replaced(*CHANGES):
            assert (Torch.one, Torch.two, Torch.inherited) == (100, 20, "replaced")
            assert state()["added"] == 30
        assert state() == before
        assert Torch.inherited == "of the base"

    def test_after_an_error(self) -> None:
        before = state()
        with pytest.raises(ZeroDivisionError), replaced(*CHANGES):
            raise ZeroDivisionError
        assert state() == before

    def test_a_place_that_torch_no_longer_has(self) -> None:
        before = state()
        point = PatchPoint(POINT.owner, "gone", "a test")
        with pytest.raises(AttributeError, match="has no gone"), replaced(*CHANGES, point.by(gone=1)):
            pass
        assert state() == before
        may_lack = PatchPoint(POINT.owner, "gone", "a test", may_lack=True)
        with replaced(may_lack.by(gone=1)):
            assert not hasattr(Torch, "gone")

    def test_interrupted_at_any_line(self) -> None:
        """Interrupts before each line that runs on entry, in the block, and on exit."""
        before = state()
        total = _interrupted_before(sys.maxsize)
        assert total > 30
        for moment in range(1, total + 1):
            with pytest.raises(KeyboardInterrupt):
                _interrupted_before(moment)
            assert state() == before, f"at line {moment} of {total}"


def _interrupted_before(moment: int) -> int:
    """Enters and leaves, with an interrupt before the line of this number; returns the number of lines that
    ran."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line":
            count += 1
            if count == moment:
                raise KeyboardInterrupt
        return trace

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        with replaced(*CHANGES):
            pass
    finally:
        sys.settrace(old)
    return count
