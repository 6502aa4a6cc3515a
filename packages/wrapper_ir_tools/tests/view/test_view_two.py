"""The page of two programs side by side in headless Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from packages.wrapper_ir_tools.tests.view.view_browser import Page
from packages.wrapper_ir_tools.tests.view.view_samples import TEXT, sample_program

from wrapper_ir import parse_program
from wrapper_ir_tools.view import ViewOptions, diff_html, view_program

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

LAUNCH = "launch @k(%x, %a) extents(256, 256)"


def test_two_programs_side_by_side(browser: Chrome, tmp_path: Path) -> None:
    old = sample_program()
    new = parse_program(
        TEXT.replace("  %c = view", "  %t = alloc f32[2]\n  free %t.s\n  %c = view").replace(
            "// one element", "// 1"
        )
    )
    sides = [(p, view_program(p, ViewOptions(title=t))) for p, t in ((old, "old.wir"), (new, "new.wir"))]
    page = Page(browser, diff_html(sides[0], sides[1]), tmp_path)
    assert page.texts(".titles span") == ["old.wir", "new.wir"]
    assert page.texts("#panel h3") == ["1 place differs"]
    assert page.texts("#changes td") == ["@main", "0", "2", "0", "@branch", "0", "0", "0"]
    assert page.texts("#program .row.added .what") == ["%t = alloc f32[2]", "free %t.s"]
    assert any("equal lines" in g for g in page.texts("#program .group .what"))
    page.keys("]")
    page.expect_selected("%t = alloc f32[2]")
    page.keys("f")  # all lines
    page.until(lambda: page.texts("#program .row .what"), lambda result: LAUNCH in result)
    assert page.texts("#program .row .what").count(LAUNCH) == 2
    page.go(LAUNCH)
    page.focus("#program")
    page.keys("3")
    pairs = page.until(lambda: page.texts(".pair .changed .half"), bool)
    assert [p.strip() for p in pairs] == ["dst[0] = src[0];  // one element", "dst[0] = src[0];  // 1"]
    page.keys("x")  # the other side
    assert page.until(lambda: page.texts("#program .half.active .what"), bool) == [LAUNCH]
    assert page.errors() == []
