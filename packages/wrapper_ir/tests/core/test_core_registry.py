"""Entry points of a distribution made up for the test: found, missing, ambiguous, broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from wrapper_ir.errors import PluginError
from wrapper_ir.plugins import registry

LOOK_UPS: dict[str, Callable[[str], object]] = {
    "frontends": registry.frontend,
    "emitters": registry.emitter,
    "kernel_runtimes": registry.kernel_runtime,
    "machines": registry.machine,
}


def install(root: Path, distribution: str, entry_points: str, code: str = "") -> None:
    """Writes an installed distribution: metadata, and one module of its name."""
    info = root / f"{distribution}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    (root / f"{distribution}.py").write_text(code)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a folder on `sys.path` for distributions."""
    root = tmp_path / "site"
    root.mkdir()
    monkeypatch.syspath_prepend(str(root))
    return root


@pytest.mark.parametrize("group", LOOK_UPS)
def test_found(group: str, site: Path) -> None:
    install(
        site,
        f"fake_{group}",
        f"[wrapper_ir.{group}]\nfake = fake_{group}:PLUGIN\n",
        "PLUGIN = ['the plug-in']",
    )
    assert LOOK_UPS[group]("fake") == ["the plug-in"]
    assert "fake" in registry.plugin_names(group)
    assert list(registry.plugin_names(group)) == sorted(registry.plugin_names(group))


def test_emitter_names_are_those_of_the_group(site: Path) -> None:
    install(site, "fake_names", "[wrapper_ir.emitters]\nfake = fake_names:PLUGIN\n")
    assert registry.emitter_names() == registry.plugin_names("emitters")
    assert "fake" in registry.emitter_names()


def test_names_are_listed_without_importing_anything(site: Path) -> None:
    install(site, "fake_lazy", "[wrapper_ir.emitters]\nlazy = fake_lazy:PLUGIN\n", "raise SystemExit(1)")
    assert "lazy" in registry.plugin_names("emitters")


@pytest.mark.parametrize("group", LOOK_UPS)
def test_missing(group: str, site: Path) -> None:
    install(site, "fake_missing", f"[wrapper_ir.{group}]\npresent = fake_missing:PLUGIN\n")
    with pytest.raises(PluginError, match=r"(?s)'absent'.*installed: .*present.*hint: ") as caught:
        LOOK_UPS[group]("absent")
    assert caught.value.code == "WIR901"


def test_ambiguous(site: Path) -> None:
    install(site, "fake_one", "[wrapper_ir.emitters]\ntwice = fake_one:PLUGIN\n", "PLUGIN = 1")
    install(site, "fake_two", "[wrapper_ir.emitters]\ntwice = fake_two:PLUGIN\n", "PLUGIN = 2")
    with pytest.raises(PluginError, match=r"fake_one:PLUGIN.*fake_two:PLUGIN") as caught:
        registry.emitter("twice")
    assert caught.value.code == "WIR902"


def test_the_same_declaration_twice_is_one(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepts two equal declarations, as of an editable installation next to stale metadata of a wheel."""
    second = tmp_path / "second"
    second.mkdir()
    monkeypatch.syspath_prepend(str(second))
    for root in (site, second):
        install(root, "fake_same", "[wrapper_ir.emitters]\nsame = fake_same:PLUGIN\n", "PLUGIN = 1")
    plugin: object = registry.emitter("same")
    assert plugin == 1


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_module_at_all", "no_such_module_at_all"),
        ("OTHER = 1", "PLUGIN"),
        ("raise ValueError('bad luck')", "bad luck"),
    ],
)
def test_broken(code: str, message: str, site: Path) -> None:
    name = f"fake_broken_{message.replace(' ', '_').lower()}"
    install(site, name, f"[wrapper_ir.emitters]\nbroken = {name}:PLUGIN\n", code)
    with pytest.raises(PluginError, match=message) as caught:
        registry.emitter("broken")
    assert caught.value.code == "WIR903"
    assert caught.value.__cause__ is not None
