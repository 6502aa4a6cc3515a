"""The page of a memory report is standalone, and works in a browser."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from wrapper_ir import ir, parse_program
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_passes.memory.plan_memory import PlanMemory
from wrapper_ir_tools.report import MemoryReport, memory_report, report_html, report_json
from wrapper_ir_tools.testing import random_program

BROWSER = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
in_a_browser = pytest.mark.skipif(BROWSER is None, reason="needs chromium")

TEXT = """wir 0.5
target cpu

kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{
}}}

func @main(%p: bool[], %x: f32[64]) {
  %a = alloc f32[64]
  launch @k(%x, %a)
  %b = alloc f32[64]
  launch @k(%a, %b)
  %c = alloc f32[64]
  launch @k(%b, %c)
  %d = cond %p then @branch else @branch (%c) : f32[16]
  return %d
}

func @branch(%x: f32[64]) {
  %r = alloc f32[16]
  launch @k(%x, %r) extents(64, 64)
  return %r
}
"""
MODULES = (("encoder.layer.0",), ("encoder.layer.1",), ("encoder.layer.10",))


def _program() -> ir.Program:
    """A program of three launches in three modules, with one pool."""
    program = PlanMemory().run(derive_frees(parse_program(TEXT)))
    modules = iter(MODULES)
    body = [
        dataclasses.replace(op, prov=ir.Provenance(modules=next(modules), locations=("m.py:1",)))
        if type(op).__name__ == "Launch"
        else op
        for op in program.main.body
    ]
    return program.with_functions([program.main.with_body(body), *program.functions[1:]])


class _Page(html.parser.HTMLParser):
    """Collects the links, ids and scripts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.policy = ""
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "data", "action")]
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"] or ""
        self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data


def test_the_page_needs_nothing_else() -> None:
    text = report_html(memory_report(_program()))
    page = _Page(text)
    assert page.links == []
    assert page.policy.startswith("default-src 'none'")
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert len(page.ids) == len(set(page.ids))
    data, code = page.scripts
    assert json.loads(data) == json.loads(report_json(memory_report(_program())))
    assert set(re.findall(r'get\("(\w+)"\)', code)) <= set(page.ids)


HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=document.title='taken'>"


def _hostile() -> ir.Program:
    program = _program()
    body = [
        dataclasses.replace(op, prov=ir.Provenance(nodes=(HOSTILE,), modules=(HOSTILE,)))
        for op in program.main.body
    ]
    return program.with_functions([program.main.with_body(body), *program.functions[1:]])


def test_hostile_text_stays_text() -> None:
    page = _Page(report_html(memory_report(_hostile())))
    assert len(page.scripts) == 2
    assert page.links == []


def _in_browser(report: MemoryReport, script: str, folder: Path) -> Any:  # Any: a script's result, from JSON
    """Opens the page, runs a script after its own, and returns the script's `found`."""
    probe = (
        f"<pre id=probe></pre><script>{script}\nget('probe').textContent = "
        "JSON.stringify(found);</script></body>"
    )
    path = folder / "page.html"
    path.write_text(report_html(report).replace("</body>", probe), encoding="utf-8")
    assert BROWSER is not None
    flags = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}")
    process = subprocess.run(
        [BROWSER, *flags, "--window-size=1280,1600", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    match = re.search(r'<pre id="probe">(.*?)</pre>', process.stdout, re.DOTALL)
    assert match is not None
    assert match[1], "the page's script or the probe failed"
    return json.loads(html.unescape(match[1]))


BOXES = """
const boxes = () => Object.fromEntries([...document.querySelectorAll("rect.storage")].map(r => [r.dataset.name, r]));
const number = (r, name) => parseFloat(r.getAttribute(name));
"""


@in_a_browser
def test_drawing_hovering_filtering_and_choosing(tmp_path: Path) -> None:
    report = memory_report(_program())
    script = (
        BOXES
        + """
const found = {};
found.title = document.title;
found.boxes = Object.fromEntries(Object.entries(boxes()).map(([n, r]) => [n, ["x", "y", "width", "height"].map(a => number(r, a))]));
found.peak = [...document.querySelectorAll("text.peak")].map(t => t.textContent);
found.rows = [...document.querySelectorAll("#held tr")].map(r => r.dataset.name);
found.modules = [...document.querySelectorAll("#modules option")].map(o => o.value);
boxes()["a.s"].dispatchEvent(new MouseEvent("mousemove", {clientX: 50, clientY: 60, bubbles: true}));
found.hover = [...get("hover").children].map(c => c.textContent);
found.shown = !get("hover").hidden;
boxes()["a.s"].dispatchEvent(new MouseEvent("mouseleave", {bubbles: true}));
found.gone = get("hover").hidden;
get("module").value = "encoder.layer.1";
get("module").dispatchEvent(new Event("input"));
found.bright = Object.entries(boxes()).filter(([, r]) => !r.classList.contains("dim")).map(([n]) => n);
found.count = get("shown").textContent;
get("module").value = "";
get("module").dispatchEvent(new Event("input"));
boxes()["b.s"].dispatchEvent(new MouseEvent("click", {bubbles: true}));
found.chosen = [...document.querySelectorAll("rect.chosen")].map(r => r.dataset.name);
get("function").value = "branch";
get("function").dispatchEvent(new Event("change"));
found.branch = Object.keys(boxes());
"""
    )
    result = _in_browser(report, script, tmp_path)
    storages = {s.name: s for s in report.functions[0].storages}
    assert set(result["boxes"]) == set(storages)
    for one, (x, y, width, height) in result["boxes"].items():  # to scale, and slots inside their pools
        other = result["boxes"]["pool0"]
        assert x == pytest.approx(80 + 1110 * storages[one].begin / len(report.functions[0].held))
        assert height / other[3] == pytest.approx(storages[one].bytes / storages["pool0"].bytes)
        if storages[one].kind == "slot":
            assert other[0] <= x < x + width <= other[0] + other[2] + 1e-6
            assert other[1] - 1e-6 <= y < y + height <= other[1] + other[3] + 1e-6
    peak = report.functions[0].peak_op
    assert result["peak"] == [f"peak 512 B at op {peak}"]
    assert "pool0" in result["rows"]
    assert result["modules"] == ["encoder", "encoder.layer", "encoder.layer.0", "encoder.layer.1", "encoder.layer.10"]  # fmt: skip
    assert result["hover"][0] == "%a.s: 256 bytes (256 B)"
    assert "in %pool0" in result["hover"][1]
    assert result["hover"][2:] == ["launch @k(%x, %a)", "m.py:1", "module encoder.layer.0"]
    assert (result["shown"], result["gone"]) == (True, True)
    # not the storages of encoder.layer.10
    assert result["bright"] == ["b.s"]
    assert result["count"].startswith("1 of")
    assert result["chosen"] == ["b.s"]
    assert result["branch"] == ["r.s"]


@in_a_browser
def test_hostile_text_in_a_browser(tmp_path: Path) -> None:
    script = BOXES + (
        'Object.values(boxes()).forEach(r => r.dispatchEvent(new MouseEvent("mousemove", {bubbles: true})));\n'
        "const found = [document.title, document.images.length, document.scripts.length, "
        "get('hover').textContent];"
    )
    title, images, scripts, text = _in_browser(memory_report(_hostile()), script, tmp_path)
    assert (title, images, scripts) == ("Memory", 0, 3)
    assert HOSTILE in text


@in_a_browser
def test_random_programs_in_a_browser(tmp_path: Path) -> None:
    """Each function of a program with every kind of op draws each of its storages."""
    report = memory_report(PlanMemory().run(random_program(random.Random(7), size=60)))
    script = BOXES + (
        'const found = {};\nfor (const f of report.functions) { get("function").value = f.name;\n'
        'get("function").dispatchEvent(new Event("change")); found[f.name] = Object.keys(boxes()).length; }'
    )
    result = _in_browser(report, script, tmp_path)
    assert result == {f.name: len(f.storages) for f in report.functions}
