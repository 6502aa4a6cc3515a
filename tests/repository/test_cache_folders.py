"""`torch.compile(backend="wrapper_ir")` with an unwritable cache: it works, with one warning that states the
cause.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
    import json, warnings
    import torch
    from inductor_frontend.cache import stats
    from wrapper_ir.errors import StoreWarning

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        f = torch.compile(lambda x: (x.sin() + 1).relu(), backend="wrapper_ir")
        x = torch.rand(100)
        torch.testing.assert_close(f(x), (x.sin() + 1).relu())
    said = [str(w.message) for w in seen if isinstance(w.message, StoreWarning)]
    print(json.dumps({"said": said, "functions": stats().function_hits, "lowered": stats().lowered}))
"""


def compile_in_process(**env: str) -> Any:  # Any: JSON printed by the script
    """Compiles and runs in a separate process, whose cache is enabled and named by `env` alone."""
    kept = {
        k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME", "WRAPPER_IR_CACHE_DIR")
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)],
        env={**kept, "WRAPPER_IR_COMPILE_CACHE": "1", **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    """Not even the superuser writes below /proc. The next process finds the first one's entries."""
    env = {
        "HOME": "/proc/no-home",
        "TMPDIR": str(tmp_path),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "theirs"),
    }
    first = compile_in_process(**env)
    assert len(first["said"]) == 1
    assert first["said"][0].startswith("[WIR251] the cache /proc/no-home/.cache/wrapper-ir cannot be written")
    second = compile_in_process(**env)
    assert (second["said"], second["functions"], second["lowered"]) == ([], 1, 0)


@pytest.mark.slow
def test_one_variable_names_the_root_of_all(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path / "home"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "theirs")}
    (tmp_path / "home").mkdir()
    found = compile_in_process(WRAPPER_IR_CACHE_DIR=str(tmp_path / "ours"), **env)
    assert found["said"] == []
    namespaces = {p.name for p in (tmp_path / "ours/1").iterdir()}
    assert {"cpp", "graphs", "launchers", "python"} <= namespaces
    assert not [p for p in (tmp_path / "home").rglob("*") if "wrapper" in p.name]
