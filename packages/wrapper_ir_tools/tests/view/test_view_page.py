"""The page of a program in headless Chromium: each feature by keyboard and by mouse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packages.wrapper_ir_tools.tests.view.view_browser import Page
from packages.wrapper_ir_tools.tests.view.view_samples import sample_program, write_source

from wrapper_ir_tools.view import OpTime, SavedValue, SourceOptions, ViewOptions, view_html, view_program

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

TIMES = (
    OpTime(function="main", op=2, seconds=2e-6, facts=(("bytes moved", "512"),)),
    OpTime(function="main", op=5, seconds=6e-6),
    OpTime(function="branch", op=2, seconds=2e-6),
)
VALUES = (
    SavedValue(
        file="after_launch_k_b.safetensors", kernel="k", value="b", summary="f32[64]: mean 1", phase="after"
    ),
    SavedValue(file="in.safetensors", kernel="", value="x", summary="f32[64]: mean 3", phase="inputs"),
    SavedValue(file="out.safetensors", kernel="", value="e", summary="f32[16]: mean 4", phase="outputs"),
    SavedValue(
        file="exact.safetensors",
        kernel="twice",
        value="c",
        summary="f32[8, 8]: mean 2",
        function="main",
        op=8,
    ),
)
ESCAPE, ENTER, LEFT, RIGHT, DOWN, UP, HOME, END = (
    "\ue00c",
    "\ue007",
    "\ue012",
    "\ue014",
    "\ue015",
    "\ue013",
    "\ue011",
    "\ue010",
)


@pytest.fixture
def page(browser: Chrome, tmp_path: Path) -> Iterator[Page]:
    """The page of the sample, with source and a run; fails if the browser logs an error."""
    write_source(tmp_path)
    options = ViewOptions(
        title="sample.wir", sources=SourceOptions(roots=(tmp_path,)), times=TIMES, values=VALUES
    )
    opened_page = Page(browser, view_html(view_program(sample_program(), options)), tmp_path)
    yield opened_page
    assert opened_page.errors() == []


LAUNCH_A, LAUNCH_B = "launch @k(%x, %a) extents(256, 256)", "launch @k(%a, %b) extents(256, 256)"


def _click_line(page: Page, op: int) -> None:
    """Selects a line by its number."""
    page.js(
        "[...document.querySelectorAll('#program .row')].find(r => "
        "r.querySelector('.gutter').textContent === arguments[0]).querySelector('.gutter').click()",
        str(op),
    )


def test_the_program_is_there(page: Page) -> None:
    assert page.browser.title == "sample.wir"
    rows = page.texts("#program .row .what")
    assert rows[:2] == ["\u25be @main 14 lines, 8.00 \u00b5s", "func @main(%p: bool[], %x: f32[64]) {"]
    assert LAUNCH_A in rows
    assert "launch @head(%x, %r) extents(64, 64)" in rows


def test_folding_by_module(page: Page) -> None:
    groups = page.texts("#program .group .what")
    assert [re.sub(r" \d+ lines.*", "", g) for g in groups] == [
        "\u25be @main",
        "\u25be encoder.layer",
        "\u25be 0",
        "\u25be 1",
        "\u25be norm",
        "\u25be @branch",
    ]
    page.click("#program .group .what", "encoder.layer")
    page.until(lambda: page.texts("#program .group .what"), lambda result: len(result) == 3)
    assert LAUNCH_A not in page.texts("#program .row .what")
    # the keyboard does the same
    page.keys(RIGHT)
    page.until(lambda: page.texts("#program .group .what"), lambda result: len(result) == 6)
    page.go(LAUNCH_A)
    # to the enclosing group
    page.keys(LEFT)
    assert page.until(lambda: page.selected, lambda result: result.startswith("\u25be 0")).startswith(
        "\u25be 0"
    )
    page.keys(LEFT)
    assert page.until(lambda: page.selected, lambda result: result.startswith("\u25b8 0")).startswith(
        "\u25b8 0"
    )
    assert LAUNCH_A not in page.texts("#program .row .what")
    page.focus("#program")
    page.keys("f")
    assert page.until(lambda: page.texts("#program .group .what"), lambda result: len(result) == 6)


def test_moving_by_keys(page: Page) -> None:
    page.keys(DOWN, DOWN)
    page.expect_selected("%a = alloc f32[64]")
    page.keys("j", "j", "k")
    page.keys(END)
    page.expect_selected("}")
    page.keys(UP)
    page.expect_selected("return %r")
    page.keys(HOME)
    assert page.until(lambda: page.selected, lambda result: "@main" in result).startswith("\u25be @main")
    page.keys("b")  # back
    page.expect_selected("return %r")
    assert page.js("return document.activeElement.id") == "program"
    active = page.js(
        "return "
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).textContent"
    )
    assert "return %r" in active


def test_source_beside_the_program(page: Page) -> None:
    page.go(LAUNCH_A)
    page.expect("#source .row.selected .what", "y = x + 1")
    assert page.texts(".source .chip") == ["model.py:2"]
    lines = page.texts("#source .known .gutter")
    assert lines == ["2", "3"]
    # and back: from the source to the program
    page.click("#source .row .what", "return y + w")
    assert "launch @twice" in page.until(lambda: page.selected, lambda result: "@twice" in result)
    page.click("#source .row .what", "return y + w")
    assert "aten::add" in page.until(lambda: page.selected, lambda result: "aten::add" in result)


def test_without_source_the_places_are_shown(browser: Chrome, tmp_path: Path) -> None:
    page = Page(
        browser,
        view_html(view_program(sample_program(), ViewOptions(sources=SourceOptions(read=False)))),
        tmp_path,
    )
    page.go(LAUNCH_A)
    assert "The text of model.py is not in this page (left out)" in page.texts("#places p")[0]
    assert page.texts("#places button") == ["model.py:2", "model.py:3"]
    page.click("#places button", "model.py:3")
    assert "@twice" in page.until(lambda: page.selected, lambda result: "@twice" in result)
    page.keys("6")
    assert page.until(lambda: page.texts("#missing td"), bool) == ["model.py", "left out"]
    assert page.errors() == []


def test_search(page: Page) -> None:
    # a module
    page.keys("/", "layer.1")
    page.expect("#found", "2 found")
    page.keys(ENTER, ENTER)
    assert "aten::add" in page.until(lambda: page.selected, lambda result: "aten::add" in result)
    page.click("header label")
    assert len(page.until(lambda: page.texts("#program .row .what"), lambda result: len(result) == 2)) == 2
    page.keys(ESCAPE)
    page.focus("input[type=search]")
    page.keys(ESCAPE)
    page.until(lambda: page.texts("#found"), lambda result: result == [""])
    page.focus("#program")
    page.keys("/", "LAUNCH branch")
    page.expect("#found", "0 found")
    page.focus("#program")
    # a source node replaces the previous query
    page.keys("/", "node_1")
    page.expect("#found", "1 found")
    page.keys(ENTER)
    page.expect_selected(LAUNCH_B)
    assert page.js("return document.querySelectorAll('#program .row.hit').length") == 1


def test_searching_opens_what_is_folded(page: Page) -> None:
    page.keys("f")
    page.until(lambda: page.texts("#program .row .what"), lambda result: LAUNCH_B not in result)
    page.keys("/", "node_1")
    page.expect("#found", "1 found")
    page.keys(ENTER)
    page.expect_selected(LAUNCH_B)


def test_kernel_and_launch(page: Page) -> None:
    page.go(LAUNCH_B)
    page.focus("#program")
    page.keys(ENTER)
    page.expect("[role=tab][aria-selected=true]", "Kernel")
    assert page.until(lambda: page.texts("#launch td"), bool) == [
        "read f32* src",
        "%a",
        "256",
        "write f32* dst",
        "%b",
        "256",
    ]
    assert page.until(lambda: page.texts("#kernel .what"), bool)[1] == "dst[0] = src[0];  // one element"
    assert page.texts("#kernel .comment") == ["// one element"]
    assert "Run 2 of 2 in the program" in page.texts("#panel p")[0]
    page.click("#panel button", "previous")
    page.expect_selected(LAUNCH_A)
    _click_line(page, 9)
    assert page.until(lambda: page.texts("#panel pre"), lambda result: "aten::add" in "".join(result))[
        0
    ].startswith('extern "aten::add(')


def test_data_flow(page: Page) -> None:
    page.click("#program .value", "%b")
    page.expect("[role=tab][aria-selected=true]", "Data flow")
    row = page.until(lambda: page.texts("#flow tr.selected td"), bool)
    assert row[:3] == ["%b", "defines", "3"]
    assert row[4] == "5, 7, 9"
    assert page.js("return document.querySelectorAll('#program .what.use').length") == 4
    page.focus("#program")
    page.keys("n")
    page.expect_selected(LAUNCH_B)
    page.keys("n", "n")
    assert "aten::add" in page.until(lambda: page.selected, lambda result: "aten::add" in result)
    page.keys("p")
    page.expect_selected("%c = view %b : f32[8, 8]")
    page.keys("d")
    page.expect_selected("%b = alloc f32[64]")


def test_the_graph_of_neighbours(page: Page) -> None:
    page.go(LAUNCH_B)
    page.focus("#program")
    page.keys("2")
    page.until(lambda: page.texts("#graph .node.here text"), bool)
    before, here, after = (page.texts(f"#graph .node.{kind} text") for kind in ("before", "here", "after"))
    assert [t.split()[0] for t in before] == ["2", "3"]
    assert here[0].startswith("5")
    assert [t.split()[0] for t in after] == ["7", "8"]
    page.js("document.querySelector('#graph .node.before').focus()")
    page.keys(ENTER)
    page.expect_selected(LAUNCH_A)
    page.click("#graph .node.after text", "5")
    page.expect_selected(LAUNCH_B)


def test_into_a_function_that_is_called(page: Page) -> None:
    _click_line(page, 11)
    page.until(lambda: page.selected, lambda result: "cond" in result)
    page.focus("#program")
    page.keys(ENTER)
    page.expect_selected("func @branch(%x: f32[64]) {")
    assert page.texts(".strip b") == ["Memory of @branch"]


def test_memory_over_time(page: Page) -> None:
    assert page.texts(".strip b") == ["Memory of @main"]
    page.click(".strip button", "peak 512 B")
    text = page.until(lambda: page.texts("#held"), lambda result: result != [""])[0]
    peak = re.search(r"at op (\d+)", page.texts(".strip button")[0])
    assert peak is not None
    assert text.startswith(f"op {peak[1]}: ")
    page.js("""const strip = document.getElementById("strip"), box = strip.getBoundingClientRect();
        strip.dispatchEvent(new MouseEvent("click", {bubbles: true, clientX: box.left + box.width * 2.5 / 14, clientY: box.top + 5}));""")
    page.expect_selected(LAUNCH_A)
    page.focus("#program")
    page.keys("4")
    assert page.until(lambda: page.texts("#storages td"), bool)[:5] == ["256", "%a.s", "allocation", "0", "6"]
    names = page.js("return [...document.querySelectorAll('#map .storage')].map(r => r.dataset.name)")
    assert {"a.s", "b.s", "d"} <= set(names)
    page.click("#storages button", "6")
    page.expect_selected("free %a.s")


def test_times_and_values_of_a_run(page: Page) -> None:
    assert len(page.texts("#program .time")) == 3
    assert page.js(
        "return [...document.querySelectorAll('#program .time > span')].map(s => s.style.width)"
    ) == ["33.3333%", "100%", "33.3333%"]
    page.go(LAUNCH_B)
    facts = page.until(
        lambda: page.texts(".facts tr"), lambda result: any(f.startswith("time") for f in result)
    )
    assert "time6.00 \u00b5s, 60.0 % of the run" in facts
    assert page.texts(".saved td") == ["%b", "after", "f32[64]: mean 1", "after_launch_k_b.safetensors"]
    page.focus("#program")
    page.keys("5")
    assert page.until(lambda: page.texts("#by-kernel td"), bool) == [
        *("8.00 \u00b5s", "80.0 %", "2", "k"),
        *("2.00 \u00b5s", "20.0 %", "1", "head"),
    ]
    assert page.texts("#by-op button") == ["@main 5", "@main 2", "@branch 2"]
    page.click("#by-op button", "@branch 2")
    page.expect_selected("launch @head(%x, %r) extents(64, 64)")
    _click_line(page, 8)
    page.keys("1")
    assert "f32[8, 8]: mean 2" in page.until(
        lambda: page.texts(".saved td"), lambda result: "f32[8, 8]: mean 2" in result
    )


def test_saved_arguments_and_results_of_the_program(page: Page) -> None:
    page.go("func @main")
    assert "f32[64]: mean 3" in page.until(lambda: page.texts(".saved td"), bool)
    page.go("return %e")
    assert "f32[16]: mean 4" in page.until(
        lambda: page.texts(".saved td"), lambda result: "f32[16]: mean 4" in result
    )


LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 27)"


def _expect_color(page: Page, color: str) -> None:
    script = "return getComputedStyle(document.body).backgroundColor"
    assert page.until(lambda: page.js(script), lambda result: result == color) == color


def test_themes(page: Page) -> None:
    _expect_color(page, LIGHT)
    page.keys("t")
    page.expect("#theme", "Theme: light")
    page.click("#theme")
    page.expect("#theme", "Theme: dark")
    _expect_color(page, DARK)
    # the theme is stored
    page.open()
    page.expect("#theme", "Theme: dark")
    _expect_color(page, DARK)
    page.keys("t")
    page.expect("#theme", "Theme: system")
    _expect_color(page, LIGHT)


def test_the_system_may_be_dark(browser: Chrome, page: Page) -> None:
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    _expect_color(page, DARK)
    # light, independent of the system
    page.keys("t")
    _expect_color(page, LIGHT)
    page.keys("t", "t")
    _expect_color(page, DARK)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_keys_are_explained(page: Page) -> None:
    page.keys("?")
    assert page.until(lambda: page.texts("[role=dialog] h2"), bool) == ["Keys"]
    page.keys(ESCAPE)
    page.expect("[role=dialog]")


def test_everything_is_reached_by_tab(page: Page) -> None:
    """Each clickable element is a button, a field, or a line of a focusable list."""
    page.go(LAUNCH_B)
    for tab in "123456":
        page.focus("#program")
        page.keys(tab)
        unreachable = page.js(
            "return [...document.querySelectorAll('button, input, [role=button], [role=tree], "
            ".scroll')].filter(e => e.tabIndex < 0 && !e.disabled).length"
        )
        assert unreachable == 0
        unnamed = page.js(
            "return [...document.querySelectorAll('button, input[type=search], [role=tree], "
            "svg')].filter(e => !(e.textContent.trim() || e.getAttribute('aria-label'))).length"
        )
        assert unnamed == 0


def test_a_link_to_a_line(page: Page) -> None:
    page.go(LAUNCH_B)
    page.until(lambda: page.browser.current_url, lambda url: url.endswith("#0/main/5"))
    page.open("#0/branch/2")
    page.expect_selected("launch @head(%x, %r) extents(64, 64)")


def test_what_the_program_says_of_itself(page: Page) -> None:
    page.keys("6")
    facts = page.until(lambda: page.texts(".facts tr"), bool)
    assert "kernels3" in facts
    assert "symbol n : int backed [2, 64] hint 8" in page.texts("#panel pre")[0]
