"""A page of many ops opens quickly and scrolls without gaps. `pytest -s` prints the times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packages.wrapper_ir_tools.tests.view.view_browser import Page, opened_browser
from packages.wrapper_ir_tools.tests.view.view_samples import layers

from wrapper_ir_tools.view import SourceOptions, ViewOptions, view_html, view_program

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

SCROLL = """
const done = arguments[arguments.length - 1], frames = arguments[0], half = frames / 2, list = document.getElementById("program"), times = [];
let last = performance.now(), frame = 0, empty = 0;
const step = now => {
  times.push(now - last);
  last = now;
  const box = list.getBoundingClientRect(), middle = document.elementFromPoint(box.left + 200, box.top + box.height / 2);
  if (!middle || !middle.closest(".row")) empty++;
  if (++frame > frames) { times.shift(); times.sort((a, b) => a - b); done([times, empty, list.scrollHeight, document.querySelectorAll("#program .row").length]); return; }
  list.scrollTop = frame <= half ? frame * 97 : list.scrollHeight * ((frame * 37) % half) / half;
  requestAnimationFrame(step);
};
requestAnimationFrame(step);
"""


def _seconds(browser: Chrome) -> float:
    """CPU seconds of the page's thread so far, independent of other load."""
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


@pytest.mark.slow
@pytest.mark.parametrize("steps", [250, pytest.param(2500, marks=pytest.mark.conformance)])
def test_many_ops_stay_fluid(steps: int, tmp_path: Path) -> None:
    """Each step is an allocation (two ops), a launch and a free: 1,000 ops, and 10,000."""
    program = layers(steps)
    assert len(program.main.body) > 4 * steps
    view = view_program(program, ViewOptions(sources=SourceOptions(read=False)))
    with opened_browser(tmp_path) as browser:
        page = Page(browser, view_html(view), tmp_path)
        browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        page.open()
        started = _seconds(browser)
        begin, end = page.js(
            "return ['wir-begin', 'wir-end'].map(n => performance.getEntriesByName(n)[0].startTime)"
        )
        first_paint = page.js(
            "return performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)[0] || 0"
        )
        before = _seconds(browser)
        times, empty, height, rows = browser.execute_async_script(SCROLL, steps // 10)
        work = 1000 * (_seconds(browser) - before) / len(times)
        page.focus("#program")
        page.keys("/", f"layer.{steps // 20}.part1")
        page.expect("#found", "5 found")
        assert page.errors() == []
    median, slow = times[len(times) // 2], times[int(len(times) * 0.95)]
    print(
        f"\n{len(program.main.body):,} ops: first paint after {first_paint:.0f} ms, ready after "
        f"{end - begin:.0f} ms more, "
        f"{1000 * started:.0f} ms of work; scrolling: {work:.1f} ms of work a frame; frames on this "
        "machine: median "
        f"{median:.1f} ms, 95 % {slow:.1f} ms, longest {times[-1]:.1f} ms; {empty} of {len(times)} "
        "without a row"
    )
    assert height > 60 * steps
    # only visible rows exist
    assert rows < 150
    assert started < 3
    assert work < 40
    assert empty == 0
