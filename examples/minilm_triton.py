"""The main example with Triton kernels, on a machine that has no GPU.

    make demo-triton       or       python -m examples.minilm_triton --folder out/

Captures MiniLM with kernels in Triton, with a dynamic batch and sequence length. Prints one kernel and the
head of the program, saves and reloads it, and emits Python. Encodes sentences with Triton's interpreter, which
runs the kernels on CPU tensors. It is slow, exact, and needs no GPU, so kernels can be debugged step by step.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import inductor_frontend
import py_wrapper
import wrapper_ir
from examples.minilm import SENTENCES, TOLERANCE, Model, embed, load_model, print_program, step
from inductor_frontend import CaptureOptions
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact

BATCHES = {"2 short": SENTENCES[::6], "3 short": (SENTENCES[0], SENTENCES[6], SENTENCES[1])}


def capture(model: Model) -> Artifact:
    """Captures the encoder with Triton kernels for any batch of 2 to 64 sentences of 2 to 256 tokens."""
    dims = {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("length", min=2, max=256)}
    return inductor_frontend.capture(
        model.encoder,
        (),
        model.batch(BATCHES["2 short"]),
        dynamic_shapes={"input_ids": dims, "attention_mask": dims},
        options=CaptureOptions(cpu_kernels="triton"),
    )


def print_kernel(console: Console, artifact: Artifact) -> None:
    """Prints the kernel with the shortest source."""
    kernels = [k for k in artifact.program.kernels if isinstance(k, ir.TritonKernel)]
    shortest = min(kernels, key=lambda k: len(k.source))
    console.print(f"{len(kernels)} Triton kernels; the shortest one:\n")
    console.print(shortest.source.strip() + "\n", highlight=False, markup=False, soft_wrap=True)


def main() -> int:
    """Runs the example; returns 0 if everything agrees with eager mode."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("out"), help="where the files go")
    parser.add_argument("--lines", type=int, default=40, help="lines of IR to print")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / "minilm_triton.wir"
    console = Console()
    columns = (SpinnerColumn(finished_text="done"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        with step(progress, "load MiniLM"):
            model = load_model()
        with step(progress, "capture with Triton kernels, dynamic batch and length"):
            artifact = capture(model)
        with step(progress, f"save and reload {path}"):
            wrapper_ir.save(artifact, path)
            artifact = wrapper_ir.load(path)
            wrapper_ir.verify(artifact.program)
        with step(progress, "emit Python from the reloaded file"):
            ours = py_wrapper.compile(artifact)
    print_kernel(console, artifact)
    print_program(console, artifact, options.lines)
    table = Table(title="Embeddings, with kernels in Triton's interpreter, against eager")
    for heading in ("batch", "tokens", "max |diff|", "seconds"):
        table.add_column(heading, justify="right")
    agree = True
    for name, sentences in BATCHES.items():
        batch = model.batch(sentences)
        start = time.perf_counter()
        got = embed(ours, batch)
        seconds = time.perf_counter() - start
        difference = (embed(model.encoder, batch) - got).abs().max().item()
        agree &= difference <= TOLERANCE
        table.add_row(name, str(batch["input_ids"].shape[1]), f"{difference:.1e}", f"{seconds:.1f}")
    console.print(table)
    console.print(f"embeddings within {TOLERANCE} of eager: {agree}")
    return 0 if agree else 1


if __name__ == "__main__":
    raise SystemExit(main())
