"""The sentence encoder as a C++ package, loaded by torch, by us, and by a C++ program without Python.

    make demo            or            python -m examples.minilm_cpp --folder out/

Captures MiniLM with a dynamic batch and length, builds `minilm.pt2`, and compares the results of both loaders
with eager mode. Then builds `examples/cpp_runner` with CMake, if it is installed, and compares its results.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch._inductor
from rich.console import Console
from torch import Tensor

import cpp_wrapper
from examples.minilm import SENTENCES, TOLERANCE, capture, load_model

RUNNER = Path(__file__).parent / "cpp_runner"


def find_cmake() -> str | None:
    """Finds CMake on PATH, or beside this Python, where pip installs the package `cmake`."""
    return shutil.which("cmake") or shutil.which("cmake", path=Path(sys.executable).parent)


def build_runner(cmake: str, folder: Path) -> Path:
    """Builds the C++ program with the runner's CMake package."""
    libraries = Path(torch.__file__).parent / "lib"
    configure: list[str | Path] = [
        *(cmake, "-S", RUNNER, "-B", folder, "-DCMAKE_BUILD_TYPE=Release"),
        *(f"-DCMAKE_PREFIX_PATH={cpp_wrapper.cmake_prefix_path()}", f"-DTORCH_LIBRARY_DIR={libraries}"),
    ]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([cmake, "--build", folder], check=True, stdout=subprocess.DEVNULL)
    return folder / "run_package"


def run_in_cpp(program: Path, package: Path, batch: dict[str, Tensor], console: Console) -> Tensor:
    """Computes the encoder's last hidden state, [batch, length, 384], by the C++ program."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        words: list[str | Path] = [program, package, folder / "states"]
        for name, tensor in batch.items():
            (folder / name).write_bytes(tensor.numpy().tobytes())
            words += [folder / name, *map(str, tensor.shape)]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        console.print(f"C++ program: {done.stdout.strip()}")
        data = bytearray((folder / "states").read_bytes())
    return torch.frombuffer(data, dtype=torch.float32).view(*batch["input_ids"].shape, -1)


def main() -> int:
    """Runs the example; returns 0 if everything agrees with eager mode."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("out"), help="where the files go")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    model = load_model()
    artifact = capture(model)
    start = time.perf_counter()
    package = cpp_wrapper.build(artifact, options.folder / "minilm.pt2")
    console.print(
        f"{package}: {package.stat().st_size >> 20} MiB, built in {time.perf_counter() - start:.1f} s"
    )
    start = time.perf_counter()
    ours = cpp_wrapper.load(package)
    console.print(f"loaded by us in {(time.perf_counter() - start) * 1e3:.1f} ms")
    stock = torch._inductor.aoti_load_package(str(package))
    batch = model.batch(SENTENCES)
    with torch.no_grad():
        want = model.encoder(**batch).last_hidden_state
    found = {
        "our loader": ours(**batch).last_hidden_state,
        "torch's loader": stock(**batch).last_hidden_state,
    }
    cmake = find_cmake()
    if cmake is None:
        console.print("cmake is not installed (`pip install cmake`): the C++ program is not built")
    else:
        program = build_runner(cmake, options.folder / "cpp_runner")
        found["the C++ program"] = run_in_cpp(program, package, batch, console)
    differences = {name: (states - want).abs().max().item() for name, states in found.items()}
    for name, difference in differences.items():
        console.print(f"{name}: max |diff| to eager {difference:.1e}")
    return 0 if all(d <= TOLERANCE for d in differences.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
