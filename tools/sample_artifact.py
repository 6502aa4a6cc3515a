"""Writes `tests/data/sample.wir`: a small captured model that the command line is tried on without torch.

Usage: `python -m tools.sample_artifact`.
"""

from __future__ import annotations

from pathlib import Path

import inductor_frontend
import wrapper_ir
from tests.common.zoo import mlp

TARGET = Path(__file__).parents[1] / "tests" / "data" / "sample.wir"


def main() -> None:
    """Captures a four-layer MLP of width 8 with a dynamic batch, its kernels for any CPU."""
    case = mlp(width=8)
    artifact = inductor_frontend.capture(
        case.model, case.args, dynamic_shapes=case.dynamic, cpu_isas=["generic"]
    )
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    wrapper_ir.save(artifact, TARGET)
    print(f"{TARGET.relative_to(Path.cwd())}: {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
