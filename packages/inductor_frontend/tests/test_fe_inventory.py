"""The inventory of the installed torch: a new place that writes wrapper text, a new class or a new hook is
reported here with its name and place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
import torch._inductor.codegen.wrapper as inductor_wrapper
from packaging.version import Version
from torch._inductor import ir
from torch._inductor.codegen import memory_planning
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.graph import GraphLowering

import inductor_frontend.errors
from inductor_frontend import CaptureOptions
from inductor_frontend.record.events import Event
from inductor_frontend.record.graph import RecordingGraph
from inductor_frontend.record.wrapper import RecordingWrapper
from inductor_frontend.torch_patches.pinned_options import inductor_patches
from inductor_frontend.translate.nodes import HANDLERS, handler_of
from tools.inventory.__main__ import installed_torch, main, start
from tools.inventory.compare import differences, updated
from tools.inventory.places import SourceTree
from tools.inventory.record import TREATMENTS, UNCLASSIFIED, Entry, Inventory

WRAPPER = "codegen/wrapper.py"


@pytest.fixture(scope="module")
def tree() -> SourceTree:
    return SourceTree(installed_torch())


@pytest.fixture(scope="module")
def inventory(tree: SourceTree) -> Inventory:
    return Inventory.load(tree.version)


class TestPlaces:
    """The installed torch matches its inventory, and the claims of the inventory hold."""

    def test_nothing_is_new_changed_or_gone(self, tree: SourceTree, update_golden: bool) -> None:
        if update_golden:
            write(updated(tree, start(tree.version)))
            for version in Inventory.known():
                write(derived(Inventory.load(version)))
        changes = differences(tree, Inventory.load(tree.version))
        assert not changes, "\n".join(changes)

    @pytest.mark.parametrize("version", Inventory.known())
    def test_everything_is_classified(self, version: str) -> None:
        entries = list(Inventory.load(version).entries())
        open_ones = [f"{s}: {f} {g} {e.by}" for s, f, g, e in entries if e.treatment == UNCLASSIFIED]
        assert not open_ones, f"say in {Inventory.path(version)} what capture makes of:\n" + "\n".join(
            open_ones
        )
        assert {e.treatment for _, _, _, e in entries} <= set(TREATMENTS)

    def test_files_that_are_not_read_are_never_used(self, inventory: Inventory) -> None:
        modules = {
            c.__module__ for cls in (RecordingWrapper, RecordingGraph, CppScheduling) for c in cls.__mro__
        }
        for file in inventory.files:
            assert (installed_torch() / "_inductor" / file).exists(), file
            assert f"torch._inductor.{file.removesuffix('.py').replace('/', '.')}" not in modules, file

    def test_treatments_are_true(self, inventory: Inventory) -> None:
        wrong = [
            f"{section}: {file} {group}: is not {entry.treatment} by {entry.by!r}"
            for section, file, group, entry in inventory.entries()
            if not _TRUE[entry.treatment](Claim(section, file, group, entry))
        ]
        hint = "correct the inventories, or let `make golden` do so for handlers and overrides"
        assert not wrong, "\n".join([*wrong, hint])


class Claim:
    """The parts of one entry."""

    def __init__(self, section: str, file: str, group: str, entry: Entry) -> None:
        self.section, self.file, self.entry = section, file, entry
        self.owner, _, self.receiver = group.partition(" > ")
        self.scopes = self.owner.split(".")

    @property
    def by(self) -> list[str]:
        return self.entry.by.split()

    @property
    def hook(self) -> str:
        """The hook that the place is in; '' for places outside the wrapper generator and the graph."""
        generator = self.scopes[0] in ("PythonWrapperCodegen", "GraphLowering")
        return self.scopes[1] if generator and len(self.scopes) > 1 else ""

    @property
    def overridden(self) -> bool:
        """Returns whether capture overrides the hook that contains the place."""
        ours = RecordingGraph if self.scopes[0] == "GraphLowering" else RecordingWrapper
        return self.hook in vars(ours)


ABSTRACT = {"ExternKernel", "MutatingFirstArgExternKernel", "MemoryCheckKernel"}
"""Bases that Inductor never instantiates, and a kernel of its memory tests."""


def is_override(name: str) -> bool:
    return name in vars(RecordingWrapper) or name in vars(RecordingGraph)


def node_class(name: str) -> type[ir.ExternKernel] | None:
    return extern_classes().get(name)


def write(inventory: Inventory) -> None:
    Inventory.path(inventory.torch).write_text(inventory.to_json(), encoding="utf-8")


def derived(inventory: Inventory) -> Inventory:
    """Adds facts from our code: node classes with handlers, and overridden hooks."""
    sections = {
        section: {
            file: {group: _derived(Claim(section, file, group, entry)) for group, entry in entries.items()}
            for file, entries in files.items()
        }
        for section, files in inventory.sections.items()
    }
    return replace(inventory, sections=sections)


def _derived(claim: Claim) -> Entry:
    entry = claim.entry
    node = node_class(claim.owner) if claim.section == "generators" else None
    if node is not None and entry.treatment in ("handled", "refused"):
        handler = handler_of(node)
        status = ("refused", "FE203") if handler is None else ("handled", handler.__name__.lstrip("_"))
        return Entry(*status, entry.digests)
    if claim.section == "hooks" and entry.treatment in ("inherited", "changed"):
        ours = RecordingGraph if claim.scopes[0] == "GraphLowering" else RecordingWrapper
        return Entry(*(("changed", ours.__name__) if claim.overridden else ("inherited", "")), entry.digests)
    return entry


def _refused(claim: Claim) -> bool:
    codes = inductor_frontend.errors.__doc__ or ""
    (code,) = claim.by
    if claim.section == "generators":
        cls = node_class(claim.owner)
        return cls is None or handler_of(cls) is None
    if code not in codes or (claim.overridden and claim.hook != "writeline"):
        return False
    reaches_us = claim.receiver in ("", "self", "self.lines", "writer", "V.graph.wrapper_code")
    return code != "FE201" or reaches_us


def _handled(claim: Claim) -> bool:
    cls = node_class(claim.owner)
    handler = None if cls is None else handler_of(cls)
    return handler is not None and [handler.__name__.lstrip("_")] == claim.by


def _node(claim: Claim) -> bool:
    return all(node_class(name) is not None for name in claim.by) and is_override("register_operation")


def _line(claim: Claim) -> bool:
    (name,) = claim.by
    cls = getattr(inductor_wrapper, name, None) or getattr(memory_planning, name, None)
    return isinstance(cls, type) and issubclass(cls, inductor_wrapper.WrapperLine)


_EVENTS = {event.__name__ for event in get_args(Event)}
_PINNED = inductor_patches(CaptureOptions())

_TRUE: dict[str, Callable[[Claim], bool]] = {
    "event": lambda c: set(c.by) <= _EVENTS and bool(c.by) and (c.section != "hooks" or c.overridden),
    "dropped": lambda c: all(map(is_override, c.by)) and (c.section != "hooks" or c.overridden),
    "changed": lambda c: c.overridden and c.section == "hooks",
    "inherited": lambda c: not c.overridden and c.section != "text",
    "line": _line,
    "node": _node,
    "handled": _handled,
    "abstract": lambda c: c.owner in ABSTRACT,
    "refused": _refused,
    "off": lambda c: all(name in _PINNED for name in c.by),
    "device": lambda c: all(map(is_override, c.by)),
    "other": lambda c: all(map(is_override, c.by)),
    "kernel": lambda c: set(c.by) <= _EVENTS and c.file != WRAPPER and not c.receiver.startswith("wrapper"),
    "buffer": lambda c: c.file == "utils.py" and c.scopes[0].endswith("Buffer"),
    "debug": lambda c: c.file != WRAPPER and "wrapper" not in c.receiver,
}


def test_every_treatment_is_checked() -> None:
    assert set(_TRUE) == set(TREATMENTS)


class TestTheTool:
    """A small torch, changed in every way that must be detected."""

    WRAPPER = """
class PythonWrapperCodegen:
    def hook(self, name):
        '''Writes.'''
        self.writeline(f"{name} = 1")
        if self.writeline(name):
            pass

class GraphLowering:
    pass
"""

    def make(self, folder: Path, wrapper: str, version: str = "9.1.0+cpu") -> SourceTree:
        inductor = folder / "torch" / "_inductor"
        (inductor / "codegen").mkdir(parents=True, exist_ok=True)
        (inductor / "codegen" / "wrapper.py").write_text(wrapper)
        (inductor / "graph.py").write_text("class GraphLowering:\n    def codegen(self): ...\n")
        (folder / "torch" / "version.py").write_text(f"__version__ = {version!r}\n")
        return SourceTree(folder / "torch")

    def known(self, folder: Path) -> Inventory:
        inventory = updated(self.make(folder, self.WRAPPER), None)
        text = inventory.to_json().replace(UNCLASSIFIED, "event")
        assert Inventory.from_json(text).to_json() == text
        return Inventory.from_json(text)

    def after(self, folder: Path, old: str, new: str) -> list[str]:
        inventory = self.known(folder)
        assert differences(self.make(folder, self.WRAPPER), inventory) == []
        assert old in self.WRAPPER
        return differences(self.make(folder, self.WRAPPER.replace(old, new)), inventory)

    def test_layout_comments_and_docstrings_do_not_matter(self, tmp_path: Path) -> None:
        assert self.after(tmp_path, "        '''Writes.'''\n", "        # why\n\n") == []
        assert self.after(tmp_path, 'f"{name} = 1"', 'f"{name} "\n            "= 1"') == []

    def test_a_new_site_is_told_with_its_place(self, tmp_path: Path) -> None:
        hook, site = self.after(tmp_path, "            pass\n", "            self.lines.append(name)\n")[::-1]
        assert "codegen/wrapper.py:7 PythonWrapperCodegen.hook > self.lines: self.lines.append(name)" in site
        assert site.startswith("NEW")
        assert "tools.inventory --update" in site
        assert "CHANGED" in hook

    def test_a_method_that_is_handed_on_is_a_site(self, tmp_path: Path) -> None:
        changes = self.after(tmp_path, "            pass\n", "            f = self.writeline\n")
        assert any("hook > self: f = self.writeline" in m for m in changes)

    def test_a_changed_site(self, tmp_path: Path) -> None:
        changes = self.after(tmp_path, "= 1", "= 2")
        assert [m[:7] for m in changes] == ["CHANGED", "CHANGED"]
        assert "(recorded: event ) see what Inductor does" in changes[0]

    def test_a_vanished_site(self, tmp_path: Path) -> None:
        changes = self.after(tmp_path, "        if self.writeline(name):\n", "        if name:\n")
        assert (
            "VANISHED torch/_inductor/codegen/wrapper.py PythonWrapperCodegen.hook > self: 1 of 2"
            in changes[0]
        )

    def test_a_new_line_class(self, tmp_path: Path) -> None:
        line = "class NewLine:\n    def codegen(self, code):\n        pass\n\nclass GraphLowering"
        (message,) = self.after(tmp_path, "class GraphLowering", line)
        assert "NEW" in message
        assert "NewLine > codegen" in message

    def test_an_update_keeps_what_is_known_and_asks_for_the_rest(self, tmp_path: Path) -> None:
        inventory = self.known(tmp_path)
        tree = self.make(tmp_path, self.WRAPPER.replace("= 1", "= 2"), "9.2.0")
        new = updated(tree, inventory)
        assert new.torch == "9.2"
        assert new.sections["text"][WRAPPER]["PythonWrapperCodegen.hook > self"].treatment == UNCLASSIFIED
        assert new.sections["text"][WRAPPER]["PythonWrapperCodegen.hook > self"].by == "was event "
        assert new.sections["generators"] == inventory.sections["generators"]
        assert differences(tree, new) == []

    def test_a_torch_without_inventory_is_told_what_to_do(self) -> None:
        with pytest.raises(FileNotFoundError, match=r"no inventory of torch 9\.9 .*2\.13.*tools\.inventory"):
            Inventory.load("9.9")

    def test_a_folder_that_is_no_torch(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="holds no torch sources"):
            SourceTree(tmp_path)

    def test_supported_versions_have_one(self) -> None:
        assert {"2.11", "2.12", "2.13", "2.14", "2.15"} <= set(Inventory.known())

    def test_a_version_is_held_against_another(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        tree = self.make(tmp_path, self.WRAPPER, "9.3.0")
        assert main(["--source", str(tree.root), "--against", "2.13"]) == 1
        output = capsys.readouterr().out
        assert "NEW      torch/_inductor/codegen/wrapper.py:3 PythonWrapperCodegen.hook" in output
        assert "VANISHED torch/_inductor/codegen/wrapper.py PythonWrapperCodegen.define_kernel" in output
        assert "torch 9.3 against the inventory of 2.13: " in output.splitlines()[-1]


REFUSED_CLASSES = {
    "QConvPointWiseBinaryPT2E",
    "QConvPointWisePT2E",
    "QLinearPointwiseBinaryPT2E",
    "QLinearPointwisePT2E",
    "SubgraphBuffer",
    "TMADescriptor",
    "TMADescriptorExperimental",
    "TMADescriptorStable",
}
"""Classes that capture refuses by name (FE202, FE203)."""


RECORDED = {"UserDefinedTritonKernel"}
"""Classes whose own code runs, over hooks that record."""


def extern_classes() -> dict[str, type[ir.ExternKernel]]:
    """All extern node classes of the installed torch, by name."""
    return {cls.__name__: cls for cls in _subclasses(ir.ExternKernel) if cls.__module__.startswith("torch.")}


def _subclasses(cls: type[Any]) -> Iterator[type[Any]]:  # Any: classes of Inductor
    yield cls
    for sub in cls.__subclasses__():
        yield from _subclasses(sub)


def test_every_extern_class_is_handled_or_refused_by_name() -> None:
    unknown = {name for name, cls in extern_classes().items() if handler_of(cls) is None}
    assert unknown == (REFUSED_CLASSES | ABSTRACT | RECORDED) & set(extern_classes())


def test_handlers_name_classes_that_exist() -> None:
    classes = set(extern_classes().values())
    assert {c for c in HANDLERS if c.__module__.startswith("torch.")} <= classes


SINCE = {
    "codegen_cuda_mempool_enter": "2.14",
    "codegen_cuda_stream_enter": "2.12",
    "codegen_cuda_stream_exit": "2.12",
    "codegen_deferred_alignment_copies": "2.12",
    "codegen_deferred_input_asserts": "2.12",
    "register_alignment_check_inputs": "2.12",
}
"""Hooks that not all supported versions have."""


def own_hooks() -> set[str]:
    """Hooks of Inductor that our wrapper overrides."""
    return {n for n in vars(RecordingWrapper) if not n.startswith("_")}


def test_every_override_is_a_hook_of_inductor() -> None:
    missing = {n for n in own_hooks() if not hasattr(inductor_wrapper.PythonWrapperCodegen, n)}
    assert missing == {n for n, since in SINCE.items() if Version(torch.__version__) < Version(since)}


def test_every_override_stands_in_the_inventory(inventory: Inventory) -> None:
    recorded = {
        group
        for files in inventory.sections["hooks"].values()
        for group, entry in files.items()
        if entry.treatment != "inherited"
    }
    wrapper = {
        f"PythonWrapperCodegen.{n}" for n in own_hooks() if hasattr(inductor_wrapper.PythonWrapperCodegen, n)
    }
    graph = {f"GraphLowering.{n}" for n in vars(RecordingGraph) if n in vars(GraphLowering) and n[:2] != "__"}
    assert wrapper | graph <= recorded


def test_overrides_take_inductors_parameters() -> None:
    for name in own_hooks():
        theirs = getattr(inductor_wrapper.PythonWrapperCodegen, name, None)
        if theirs is not None:
            ours = inspect.signature(getattr(RecordingWrapper, name))
            names, rest = list(ours.parameters), len(inspect.signature(theirs).parameters)
            assert names[:rest] == list(inspect.signature(theirs).parameters), name
            # Older versions lack some of them.
            assert all(ours.parameters[n].default is not ours.empty for n in names[rest:]), name


def test_text_that_reaches_the_recording_is_refused() -> None:
    """Every hook that is not overridden ends in `writeline`, or does not write at all."""
    assert "writeline" in own_hooks()
    source = inspect.getsource(inductor_wrapper.PythonWrapperCodegen.writelines)
    assert "self.writeline(" in source
