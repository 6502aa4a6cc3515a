"""Fixtures for tests of pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from packages.wrapper_ir_tools.tests.view.view_browser import opened_browser

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """One browser for all tests of a process: it takes seconds to start."""
    with opened_browser(tmp_path_factory.mktemp("browser")) as chrome:
        yield chrome
