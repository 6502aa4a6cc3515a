"""Counts the emitted lines of a GPT-2 training step that lead to a line of the model's source.

Usage: `python -m tools.conformance.explained [--emitter NAME] [--least SHARE]`. Compiles forward, loss and
backward of the transformers GPT-2 of `tools.bench.models` (4 blocks of width 256, no dropout), explains every
graph with the lines of the emitter, and prints the counts, in total and per graph. Exit status 1 if a line
neither leads to a source line nor states why, or if fewer than the share of the lines that are written for
ops lead to one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from inductor_frontend import ModelExplanation, explain
from tools.bench.models import small_gpt2, tokens
from wrapper_ir_tools.explain import line_share, share_text


class _TrainingStep(nn.Module):
    """The loss of a language model on its own input, as in a user's training loop."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        """A loss, of ids of shape (N, T)."""
        loss: Tensor = self.model(input_ids=ids, labels=ids, use_cache=False).loss
        return loss


def explained_training_step(emitter: str = "python") -> ModelExplanation:
    """The explanation of a training step, with the lines of one emitter."""
    torch.manual_seed(0)
    step = _TrainingStep(small_gpt2().train())
    return explain(step, (tokens(),), emitters=(emitter,), options={"cache": False, "emitter": emitter})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.conformance.explained", description=__doc__)
    parser.add_argument("--emitter", default="python", help="the emitter whose lines are counted")
    parser.add_argument("--least", type=float, default=0.95, help="the share to reach, 0 to 1")
    args = parser.parse_args(argv)
    emitter: str = args.emitter
    least: float = args.least
    explanation = explained_training_step(emitter)
    for graph in explanation.graphs:
        share = line_share([graph])
        print(
            f"{graph.name:<20}{share.op_lines:>6} lines for ops, {share.op_share:.1%} lead to a source line"
        )
    print(f"\nall {len(explanation.graphs)} graphs\n{share_text(explanation.share)}", end="")
    for lack in explanation.lacks:
        print(f"not here: {lack}")
    whole = explanation.share
    return 0 if whole.lines and whole.share == 1.0 and whole.op_share >= least else 1


if __name__ == "__main__":
    sys.exit(main())
