"""A page loads nothing, and no text of a program becomes markup or a script."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packages.wrapper_ir_tools.tests.view.view_browser import Page
from packages.wrapper_ir_tools.tests.view.view_samples import HOSTILE, hostile_program, sample_program

from wrapper_ir import verify
from wrapper_ir_tools.view import OpTime, SavedValue, ViewOptions, diff_html, view_html, view_program

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


class _Parsed(html.parser.HTMLParser):
    """Collects the links and scripts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.policy = ""
        self.scripts: list[str] = []
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [
            value or ""
            for name, value in attrs
            if name in ("src", "href", "data", "action") or name.startswith("on")
        ]
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"] or ""
        self.inside = tag == "script"
        self.scripts += [""] if self.inside else []

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[-1] += data


def test_the_page_needs_nothing_else() -> None:
    text = view_html(view_program(sample_program()))
    page = _Parsed(text)
    assert page.links == []
    data, code = page.scripts
    assert json.loads(data)["programs"][0]["title"] == "program"
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert page.policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert not re.search(
        r"@import|url\(|fetch\(|XMLHttpRequest|import\(|sourceMappingURL|eval\(|new Function", text
    )


def _options() -> ViewOptions:
    return ViewOptions(
        title=HOSTILE,
        times=(OpTime(function="main", op=2, seconds=1.0, facts=((HOSTILE, HOSTILE),)),),
        values=(SavedValue(file=HOSTILE, kernel="k", value="b", summary=HOSTILE, phase=HOSTILE),),
    )


def test_hostile_text_stays_text() -> None:
    program = hostile_program()
    verify(program)
    view = view_program(program, _options())
    for text in (
        view_html(view),
        diff_html((program, view), (sample_program(), view_program(sample_program()))),
    ):
        page = _Parsed(text)
        assert len(page.scripts) == 2
        assert page.links == []
        assert HOSTILE in json.dumps(json.loads(page.scripts[0]), ensure_ascii=False).replace('\\"', '"')


@pytest.mark.slow
def test_hostile_text_in_a_browser(browser: Chrome, tmp_path: Path) -> None:
    program = hostile_program()
    view = view_program(program, _options())
    for text, rows in ((view_html(view), 22), (diff_html((program, view), (program, view)), 4)):
        page = Page(browser, text, tmp_path)
        for tab in "123456":
            page.keys(tab, *"j" * rows, "v", "n", "f", "?", "\ue00c", "\ue011")
        title = page.js("return document.title")
        # the text is escaped
        assert HOSTILE in title
        assert title != "taken"
        assert page.js("return [document.images.length, document.scripts.length]") == [0, 2]
        assert page.errors() == []


def test_what_is_embedded_is_what_the_folder_says() -> None:
    """The embedded libraries are unmodified: their hashes are in the README of their folder."""
    folder = files("wrapper_ir_tools.view").joinpath("vendor")
    readme = folder.joinpath("README.md").read_text(encoding="utf-8")
    scripts = [f for f in folder.iterdir() if f.name.endswith(".js")]
    assert len(scripts) == 3
    for script in scripts:
        assert f"| `{script.name}` |" in readme
        assert hashlib.sha256(script.read_bytes()).hexdigest() in readme
    for licence in ("preact.LICENSE", "htm.LICENSE"):
        assert len(folder.joinpath(licence).read_text(encoding="utf-8")) > 500
        assert licence in readme


WITHOUT = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numpy", "triton", "sympy", "PIL", "inductor_frontend", "py_wrapper", "safetensors"):
            raise ImportError(f"{name} is not here")
sys.meta_path.insert(0, Refuse())
from wrapper_ir_tools.cli.main import main
main(sys.argv[1:])
"""


def test_an_artifact_alone_on_a_machine_without_torch(tmp_path: Path) -> None:
    from wrapper_ir import save
    from wrapper_ir.artifact import bare_artifact

    save(bare_artifact(sample_program()), tmp_path / "m.wir")
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT, "view", "m.wir", "-o", "m.html"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stdout) == (0, "m.html\n"), process.stderr
    text = (tmp_path / "m.html").read_text()
    assert "not found in any source folder" in text
