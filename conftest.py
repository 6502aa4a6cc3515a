"""What every test of the repository gets: hypothesis profiles, and the flag that rewrites golden files."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import tools  # noqa: F401 - what the backend cannot compile is an error in tests

gc.disable()  # while test modules import torch and what uses it
_FROZEN = pytest.StashKey[int]()
"""How many modules there were when the collector was last told to leave everything alone."""

# A test that compiles must compile, whatever earlier runs have left; tests of the cache choose a folder themselves.
os.environ["WRAPPER_IR_COMPILE_CACHE"] = "0"

# A shared two-core machine makes deadlines meaningless; the number of examples is what the profiles are for.
_BASE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("test", _BASE, max_examples=100)
# A change is judged by examples that its author can repeat: they follow from the test's own code.
settings.register_profile("ci", settings.get_profile("test"), derandomize=True)
settings.register_profile("conformance", _BASE, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-golden`."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that hold slow tests, so that no worker is left with one at the end. A file stays whole: its
    tests share what they capture."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish(session: pytest.Session) -> None:
    """The collector starts, and does not look at what is imported by now. Processes that tests start do the like."""
    _freeze(session.config)
    # What is frozen no longer counts as old, so that full collections would come after ever fewer new objects.
    gc.set_threshold(50_000)
    gc.enable()
    children = str(Path(__file__).parent / "tests" / "common" / "children")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (children, os.environ.get("PYTHONPATH"))))


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Inductor and Triton are imported by the tests that need them."""
    if len(sys.modules) > item.config.stash[_FROZEN] + 200:
        _freeze(item.config)


def _freeze(config: pytest.Config) -> None:
    gc.freeze()
    config.stash[_FROZEN] = len(sys.modules)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten (`make golden`)."""
    return bool(request.config.getoption("--update-golden"))
