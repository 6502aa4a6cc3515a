"""The other runtimes, in a folder of their own: wheels of fixed versions beside the project's environment.

None of them is a package of the project's environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

VERSIONS = {
    "onnxruntime": "1.32.0",
    "openvino": "2026.4.1",
    "executorch": "1.5.1",
    "torchao": "0.18.0",
    # what the exports need
    "flatbuffers": "25.12.19",
    "ml-dtypes": "0.6.0",
    "onnx": "1.23.2",
    "onnx-ir": "1.1.0",
    "onnxscript": "0.7.2",
    "ruamel.yaml": "0.19.1",
}
ROOT = Path(__file__).parents[3]


def requirements() -> list[str]:
    """Arguments of `pip install` that name the versions."""
    return [f"{name}=={version}" for name, version in VERSIONS.items()]


def install(folder: Path) -> None:
    """Installs the packages into `folder`, unless it has these versions."""
    done, wanted = folder / "installed.txt", "\n".join(requirements())
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--no-deps"]
    subprocess.run([*command, "--target", str(folder), *requirements()], check=True)
    done.write_text(wanted, encoding="utf-8")


def export_environment(packages: Path | None, caches: Path) -> dict[str, str]:
    """Variables of a process that exports: with the folder of `install`, and caches in a folder."""
    paths = [
        *map(str, sorted(ROOT.glob("packages/*/src"))),
        str(ROOT),
        *([str(packages)] if packages else []),
    ]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "WRAPPER_IR_CACHE_DIR": str(caches / "wir"),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
