"""Attention and LSTMs in ONNX Runtime and OpenVINO, a process of their own: `python attention_peers.py THREADS < CASE`.

Reads a case as JSON, and prints its microseconds by runtime. It imports nothing of this repository, so that the
Python of any environment with these packages runs it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-not-found, unused-ignore]
import openvino  # type: ignore[import-not-found, unused-ignore]
from onnx import TensorProto, helper, numpy_helper  # type: ignore[import-not-found, unused-ignore]

CHAIN = 8
_ROUNDS, _SECONDS = 15, 0.02
# Any: these packages have no types
_Values = Any


def _random(*sizes: int) -> _Values:
    return np.random.default_rng(0).standard_normal(sizes, dtype=np.float32) * np.float32(0.1)


def _attention_graph(
    case: dict[str, Any],
) -> tuple[list[_Values], dict[str, _Values], list[_Values], str, _Values]:
    """Attention as exports write it: products, a softmax, and heads before positions."""
    batch, heads, queries, keys, width = (
        case[name] for name in ("batch", "heads", "queries", "keys", "width")
    )
    inputs = {"q": _random(batch, heads, queries, width), "k": _random(batch, heads, width, keys)}
    inputs["v"] = _random(batch, heads, keys, width)
    constants = [numpy_helper.from_array(np.float32(width**-0.5), "scale")]
    if case["is_causal"]:
        hidden = np.triu(np.full((1, 1, queries, keys), -1e9, np.float32), 1)
        constants.append(numpy_helper.from_array(hidden, "hidden"))
    nodes, query = [], "q"
    for i in range(CHAIN):
        nodes.append(helper.make_node("MatMul", [query, "k"], [f"a{i}"]))
        nodes.append(helper.make_node("Mul", [f"a{i}", "scale"], [f"b{i}"]))
        score = f"b{i}"
        if case["is_causal"]:
            nodes.append(helper.make_node("Add", [score, "hidden"], [f"c{i}"]))
            score = f"c{i}"
        nodes.append(helper.make_node("Softmax", [score], [f"p{i}"], axis=-1))
        nodes.append(helper.make_node("MatMul", [f"p{i}", "v"], [f"y{i}"]))
        query = f"y{i}"
    return nodes, inputs, constants, query, inputs["q"].shape


def _lstm_graph(
    case: dict[str, Any],
) -> tuple[list[_Values], dict[str, _Values], list[_Values], str, _Values]:
    steps, batch, inputs, size = (case[name] for name in ("steps", "batch", "inputs", "size"))
    weights = {"w": _random(1, 4 * size, inputs), "r": _random(1, 4 * size, size), "b": _random(1, 8 * size)}
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    node = helper.make_node("LSTM", ["x", *weights], ["y"], hidden_size=size)
    return [node], {"x": _random(steps, batch, inputs)}, constants, "y", (steps, 1, batch, size)


def _model(case: dict[str, Any]) -> tuple[bytes, dict[str, _Values], str, _Values]:
    graph_of = _lstm_graph if "steps" in case else _attention_graph
    nodes, inputs, constants, output, shape = graph_of(case)
    declared = [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in inputs.items()]
    result = helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "case", declared, [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return model.SerializeToString(), inputs, output, shape


def _onnxruntime(case: dict[str, Any], threads: int) -> Callable[[], object]:
    text, inputs, output, shape = _model(case)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_cpu_input(name, value)
    result = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
    binding.bind_ortvalue_output(output, result)
    return lambda: session.run_with_iobinding(binding)


def _openvino(case: dict[str, Any], threads: int) -> Callable[[], object]:
    text, inputs, _, _ = _model(case)
    core = openvino.Core()
    options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(core.read_model(text), "CPU", options).create_infer_request()
    for index, value in enumerate(inputs.values()):
        request.set_input_tensor(index, openvino.Tensor(value))
    run: Callable[[], object] = request.infer
    return run


def best_microseconds(run: Callable[[], object], threads: int, calls: int) -> float:
    """The best of several rounds, of one operator."""
    clock = time.process_time if threads == 1 else time.perf_counter
    best, begin = float("inf"), clock()
    run()
    count = max(1, int(_SECONDS / max(clock() - begin, 1e-6)))
    for _ in range(_ROUNDS):
        begin = clock()
        for _ in range(count):
            run()
        best = min(best, (clock() - begin) / count)
    return best * 1e6 / calls


def main() -> None:
    """Prints a line of JSON."""
    threads, case = int(sys.argv[1]), json.load(sys.stdin)
    calls = 1 if "steps" in case else CHAIN
    runs = {"ONNX Runtime": _onnxruntime(case, threads), "OpenVINO": _openvino(case, threads)}
    print(json.dumps({side: best_microseconds(run, threads, calls) for side, run in runs.items()}))


if __name__ == "__main__":
    main()
