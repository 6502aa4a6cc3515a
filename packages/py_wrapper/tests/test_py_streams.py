"""Streams, events, device guards and memory of an accelerator: the text, and results on a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from packages.py_wrapper.tests.py_golden import without_version
from packages.py_wrapper.tests.stream_program import STREAMS

import py_wrapper
from py_wrapper import TORCH_MACHINE, PyOptions
from wrapper_ir import parse_program, verify
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_runtime.interp import run

GOLDEN = Path(__file__).parent / "golden" / "streams.py.txt"


def artifact() -> Artifact:
    program = parse_program(STREAMS)
    verify(program)
    return bare_artifact(program)


def test_text(update_golden: bool) -> None:
    text = without_version(py_wrapper.emit(artifact(), PyOptions(name="streams")).source)
    if update_golden:
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_streams_are_made_once_for_each_device() -> None:
    text = STREAMS.replace("@cuda:0 stream(1)", "@cuda:1 stream(1)", 1)
    source = py_wrapper.emit(bare_artifact(parse_program(text))).source
    assert source.count("torch.cuda.Stream(") == 2
    assert source.count('stream1 = torch.cuda.Stream("cuda:1")') == 1
    assert source.count('stream1_1 = torch.cuda.Stream("cuda:0")') == 1


def test_events_of_the_host_have_happened() -> None:
    text = "wir 0.5\ntarget cpu\nfunc @main(%x: f32[4]) {\n  %e = record_event @cpu\n  wait_event %e @cpu\n  sync_event %e\n  return %x\n}\n"
    compiled = py_wrapper.compile(bare_artifact(parse_program(text)))
    x = torch.ones(4)
    assert compiled.boxed([x])[0] is x


@pytest.mark.gpu
def test_on_a_device() -> None:
    x, w = (torch.randn(512, 512, device="cuda:0") for _ in range(2))
    compiled = py_wrapper.compile(artifact())
    want = x @ w + w @ x
    for results in (compiled.boxed([x, w]), compiled.boxed([x, w]), run(artifact(), [x, w], TORCH_MACHINE)):
        sums, host, counts = results
        torch.testing.assert_close(sums, want)
        torch.testing.assert_close(host, want.cpu())
        assert counts.device == x.device
        assert not counts.any()
