"""Native libraries in a process that also holds libtorch, AOTInductor and ExecuTorch.

Installs ExecuTorch into the folder of the benchmark, as `python -m tools.bench.bench_native` does.
"""

from __future__ import annotations

import pytest

from tools.bench.native.environment import ROOT
from tools.bench.native.figures import is_right
from tools.bench.native.sides import SIDES, Workshop
from tools.bench.native.together import CALLS, MODELS, THREADS, run_together, titles

pytestmark = pytest.mark.conformance
_FOLDER = ROOT / "out" / "native"


@pytest.fixture(scope="module")
def workshop() -> Workshop:
    made = Workshop(_FOLDER, keep=False)
    for model in MODELS:
        made.prepare(model, {title: SIDES[title] for title in titles()})
    return Workshop(_FOLDER, keep=True)


@pytest.mark.parametrize("is_reversed", [False, True])
def test_one_process_holds_all_runtimes(workshop: Workshop, is_reversed: bool) -> None:
    """All calls of several threads equal eager's results, whichever library is opened first."""
    sides = titles()[::-1] if is_reversed else titles()
    found = run_together(workshop, sides)
    assert len(found) == len(sides) * len(MODELS)
    for numbers in found:
        assert is_right(numbers["difference"], numbers["magnitude"]), numbers
        assert numbers["calls"] >= THREADS * CALLS
