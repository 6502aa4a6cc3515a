"""The sentence encoder as a library that needs no torch, run by a C++ program in a folder with nothing else.

    make demo            or            python -m examples.minilm_native --folder out/

Captures MiniLM with a dynamic batch and length, packs its weights for this machine, builds `minilm.so`, and
compiles `examples/native_runner`. Runs that in a new folder with the library and the inputs, in an empty
environment, and compares its results with eager mode.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor

import cpp_wrapper
import wrapper_ir_native
from cpp_wrapper import CppOptions
from examples.minilm import SENTENCES, TOLERANCE, capture, load_model
from wrapper_ir_passes import MEMORY_PASSES, run_on_artifact

SOURCE = Path(__file__).parent / "native_runner" / "main.cpp"


def build_runner(folder: Path) -> Path:
    """Compiles the C++ program, whose one header is the C interface."""
    program = folder / "run_native"
    include = f"-I{wrapper_ir_native.include_path()}"
    subprocess.run(["g++", "-std=c++17", "-O2", include, SOURCE, "-o", program, "-ldl"], check=True)
    return program


def run_alone(program: Path, library: Path, batch: dict[str, Tensor], console: Console) -> Tensor:
    """Computes the encoder's last hidden state, [batch, length, 384], in an empty folder and environment."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for file in (program, library):
            shutil.copy(file, folder)
        words = [f"./{program.name}", f"./{library.name}", "states"]
        for name, tensor in batch.items():
            (folder / name).write_bytes(tensor.numpy().tobytes())
            words += [name, *map(str, tensor.shape)]
        done = subprocess.run(
            ["/usr/bin/env", "-i", *words], cwd=folder, check=True, capture_output=True, text=True
        )
        console.print(f"C++ program: {done.stdout.strip()}")
        data = bytearray((folder / "states").read_bytes())
    return torch.frombuffer(data, dtype=torch.float32).view(*batch["input_ids"].shape, -1)


def main() -> int:
    """Runs the example; returns 0 if the results agree with eager mode."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("out"), help="where the files go")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    model = load_model()
    level = torch.backends.cpu.get_cpu_capability().lower().replace("default", "generic")
    memory = MEMORY_PASSES.replace("use-out-variants", "use-out-variants{runtime=native}")
    artifact = run_on_artifact(capture(model), f"pack-constants{{level={level}}},{memory}")
    start = time.perf_counter()
    native = CppOptions(runtime="native")
    library = cpp_wrapper.build(artifact, options.folder / "minilm.so", native)
    console.print(
        f"{library}: {library.stat().st_size >> 20} MiB, built in {time.perf_counter() - start:.1f} s"
    )
    needed = subprocess.run(["ldd", library], check=True, capture_output=True, text=True).stdout.splitlines()
    console.print(f"needs {', '.join(line.split()[0] for line in needed)}")
    batch = model.batch(SENTENCES)
    with torch.no_grad():
        want = model.encoder(**batch).last_hidden_state
    found = run_alone(build_runner(options.folder), library, batch, console)
    difference = (found - want).abs().max().item()
    console.print(f"the C++ program without torch: max |diff| to eager {difference:.1e}")
    return 0 if difference <= TOLERANCE else 1


if __name__ == "__main__":
    raise SystemExit(main())
