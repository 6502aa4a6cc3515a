"""Semantics of each op, on a machine in plain Python."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from packages.wrapper_ir_runtime.tests.interp.interp_case import OPTIONS, STATE, X, artifact, parse
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine, Tensor, find_runtime, tensor

from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError, ExpressionError, NotSupportedError, TensorCheckError
from wrapper_ir.text import parse_program
from wrapper_ir_runtime.interp import InterpOptions, Interpreter, example_inputs, run, steps


def execute(text: str, *args: Any, options: InterpOptions = OPTIONS) -> list[Any]:
    results = run(artifact(text), list(args), ListMachine(), options)
    return [r.tolist() if hasattr(r, "tolist") else r for r in results]


def main(body: str, params: str = "%x: f32[2]") -> str:
    lines = "".join(f"  {line.strip()}\n" for line in body.strip().splitlines())
    return f"func @main({params}) {{\n{lines}}}\n"


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("return %x, 3, none, true, \"text\"", [X, 3, None, True, "text"]),
        ("%y = alloc f32[2]\nlaunch @double(%x, %y, 2)\nreturn %y", [[2.0, -4.0]]),
        ("%y = alloc f32[2]\ncall list::add.out(%x, %x, out=%y)\nreturn %y", [[2.0, -4.0]]),
        ("%y = call list::neg(%x) : f32[2]\nreturn %y", [[-1.0, 2.0]]),
        ("%t = call list::split(%x) : results\n%a = unpack %t[1] : f32[2]\nreturn %a", [[-1.0, 2.0]]),
        ('%t = call list::nested(%x) : results\n%a = unpack %t["pair"][1][0] : f32[2]\nreturn %a', [[2.0, -1.0]]),
        ("%y = alloc f32[2] zero(call)\nreturn %y", [[0.0, 0.0]]),
        ("%y = alloc f32[2] zero(once)\nreturn %y", [[0.0, 0.0]]),
        ("%y = view %x + 4 : f32[1]\nreturn %y", [[-2.0]]),
        ("%p = alloc_storage 16\n%a = view %p + 8 : f32[2]\ncopy %a, %x\n%b = view %p + 12 : f32[1]\nreturn %b", [[-2.0]]),
        ("%y = alloc f32[2]\ncopy %y, %x\n%z = reuse %y : f32[2]\nreturn %z", [X]),
        ("%y = view %x + 4 : f32[1]\n%z = ensure_aligned %y, 16\nlaunch @count_grid(%z) grid(2, 3)\nreturn %z, %x", [[6.0], X]),
        ("%z = ensure_aligned %x, 16\nlaunch @count_grid(%z) grid(4)\nreturn %x", [[4.0, -2.0]]),
        ("resize_storage %x, 16\n%y = view %x + 8 : f32[2]\nreturn %y", [[0.0, 0.0]]),
        ("%y = call list::neg(%x) : f32[2]\nset_storage %x, %y\nreturn %x", [[-1.0, 2.0]]),
        ("define s0 = size(%x, 0)*3 + stride(%x, 0) + offset(%x)\nreturn s0", [7]),
        ("%y = view %x + 4 : f32[]\ndefine u1 = item(%y)\nreturn u1*2.0", [-4.0]),
        ('assert_layout %x [2] [1] align(16) "x"\nassert_finite %x\nreturn', []),
        ("%s = alloc_storage 0\n%y = view %s + 4 : f32[0]\nlaunch @double(%x, %y, 0)\nreturn", []),
        ('%y = view %x : f32[1, 2]\nassert_layout %x [2] [1], %y [1, 2] [7, 1] "both"\nreturn', []),
        ("define s0 = size(%x, 0)\n%y = alloc f32[s0 - 2, 3]{8, 1}\nreturn %y", [[]]),
        ('comment "nothing"\n%e = record_event\nwait_event %e\nsync_event %e\nbarrier\nreturn', []),
        ('enter_profile "a"\nenter_memory_pool "p" @cuda:0\n%y = alloc f32[2] zero(call)\nexit_scope\nexit_scope\nreturn %y', [[0.0, 0.0]]),
        ('%h = collective list::neg(%x) group("0") : f32[2]\n%y = wait %h : f32[2]\nreturn %y', [[-1.0, 2.0]]),
        ('%g, %h = collective list::negs([%x, %x]) group("0") : f32[2], f32[2]\n%y = wait %h : f32[2]\n'
         '%z = wait %g : f32[2]\nreturn %y, %z', [[-1.0, 2.0], [-1.0, 2.0]]),
        ('%h = collective list::negs([%x]) group("0") : f32[2]\n%y = wait %h : f32[2]\nreturn %y', [[-1.0, 2.0]]),
    ],
)  # fmt: skip
def test_op(body: str, want: list[Any]) -> None:
    assert execute(main(body), tensor(X)) == want


@pytest.mark.parametrize(
    ("code", "body", "part"),
    [
        ("WIR920", 'define s0 = size(%x, 0)\nassert s0 > 5 "too small"\nreturn', "too small: s0 > 5 with s0 = 2"),
        ("WIR921", 'assert_layout %x [3] [1] "input"\nreturn', "sizes [2] and strides [1], expected [3] and [1] (input)"),
        ("WIR921", "%y = view %x + 4 : f32[1]\nassert_layout %y [1] [1] align(8)\nreturn", "not a multiple of 8"),
        ("WIR923", "%y = alloc f32[2]\nfree %y.s\nreturn %y", "%y has no value here"),
        ("WIR923", "%y = alloc f32[2]\nfree %y.s\nfree %y.s\nreturn", "was freed or moved before"),
        ("WIR923", "%y = alloc f32[2]\n%z = reuse %y : f32[2]\nreturn %y", "%y has no value here"),
        ("WIR923", "%y = view %x : f32[1]\ndrop %y\nreturn %y", "%y has no value here"),
        ("WIR923", "call_subgraph @take(%x)\nreturn %x", "%x has no value here"),
        ("WIR924", "%y = alloc f32[2]\nlaunch @double(%x, %y, 2) extents(8, 12)\nreturn", "may touch 12 bytes of %y"),
        ("WIR924", "%y = view %x + 4 : f32[2]\nlaunch @count_grid(%y)\nreturn", "of which 4 are there"),
        ("WIR924", "%y = alloc_storage 0 - 4\nreturn", "-4 bytes"),
        ("WIR927", "%y = call list::neg(%x) : f32[3]\nreturn %y", "declared with sizes [3]"),
        ("WIR927", "%y = call list::less(%x, 1) : f32[2]\nreturn %y", "declared as f32, but its elements are bool"),
        ("WIR927", "%t = call list::split(%x) : results\n%y = unpack %t[1] : i32[2]\nreturn %y", "%y is declared as i32"),
        ("WIR927", "%t = call list::split(%x) : results\n%y = unpack %t[5] : f32[2]\nreturn %y", "nothing at [5]"),
        ("WIR927", '%g, %h = collective list::negs([%x]) group("0") : f32[2], f32[2]\nreturn', "1 tensors for 2 results"),
        ("WIR928", "call_subgraph @again()\nreturn", "nest deeper than 100"),
    ],
)  # fmt: skip
def test_fault(code: str, body: str, part: str) -> None:
    functions = "func @take(%d: owned f32[2]) {\n  free %d\n  return\n}\n"
    functions += "func @again() {\n  call_subgraph @again()\n  return\n}\n"
    with pytest.raises(ExecutionError) as caught:
        execute(main(body) + functions, tensor(X))
    assert caught.value.code == code
    assert part in str(caught.value)
    assert "^^^" in str(caught.value), "the op is shown in its surroundings"


@pytest.mark.parametrize(
    "line",
    [
        '%h = collective list::negs([%x]) group("tp") : f32[2]\n%y = wait %h : f32[2]',
        '%y = call list::sum(%x, "tp") : f32[2]',
    ],
)
def test_nothing_runs_without_its_process_groups(line: str) -> None:
    x = tensor(X)
    with pytest.raises(NotSupportedError, match=r"WIR915.*no process group 'tp'"):
        execute(main(f"launch @count_grid(%x)\n{line}\nreturn"), x)
    assert x.tolist() == X


def test_finite() -> None:
    with pytest.raises(TensorCheckError, match="WIR922"):
        execute(main('assert_finite %x "argument 0"\nreturn'), tensor([1.0, float("nan")]))


def test_the_source_op_is_named() -> None:
    text = main("%y = call list::fail(%x) : f32[2]  #1\nreturn %y")
    text += '\nprovenance\n  #1 nodes("fail_1") ops("aten.fail.default") at("m.py:7")\n'
    with pytest.raises(ZeroDivisionError) as caught:  # the operator's own
        execute(text, tensor(X))
    (note,) = caught.value.__notes__
    assert "[WIR927]" in note
    assert "from fail_1, aten.fail.default, m.py:7" in note
    assert "^^^" in note


def test_poison_fills_what_nobody_wrote_and_what_was_freed() -> None:
    filled: list[int] = []

    class Watched(ListMachine):
        def fill_bytes(self, storage: Tensor, value: int) -> None:
            filled.append(value)
            super().fill_bytes(storage, value)

    body = "%y = alloc f32[2]\n%z = alloc f32[2]\nfree %z.s\n%d2 = view %d : f32[2]\nfree %d\nreturn %y"
    donated = tensor(X)
    text = main(body, "%d: owned f32[2]")
    (y,) = run(artifact(text), [donated], Watched(), InterpOptions(poison=0))
    assert y.tolist() == [0.0, 0.0]
    assert filled == [0, 0, 0]  # both, and the one that is freed
    assert donated.tolist() == list(X), "a donated tensor may lie beside others in its storage"


def test_constants_that_are_state() -> None:
    text = main("launch @double(%x, %state, 2)\nreturn %state")
    interpreter = Interpreter(artifact(text), ListMachine(), OPTIONS)
    (state,) = interpreter.constants.values()
    assert state.tolist() == [0.0, 0.0]
    interpreter.boxed([tensor(X)])
    assert state.tolist() == [2.0, -4.0]
    assert bytes(STATE.buffer) == bytes(8), "the artifact's data is never written"


def test_constants_need_data() -> None:
    with pytest.raises(ExecutionError, match="WIR929"):
        run(parse(main("return %state")), [tensor(X)], ListMachine(), OPTIONS)


def test_wrong_arguments() -> None:
    for args in ([], [3]):
        with pytest.raises(ExecutionError, match="WIR926"):
            run(artifact(main("return %x")), [*args], ListMachine(), OPTIONS)


def test_inputs_that_no_library_can_hold_are_refused() -> None:
    program = parse_program(
        "wir 0.5\ntarget cpu\nsymbol n : int backed\nfunc @main(%x: f32[n, 8]) {\n  return\n}\n"
    )
    with pytest.raises(ExpressionError, match=r"WIR408.*32\*n is 288000000000000000000"):
        example_inputs(program, ListMachine(), 0, {"n": 9 * 10**18})
    [made] = example_inputs(program, ListMachine(), 0, {"n": 3})
    assert made.sizes == (3, 8)


def test_a_run_can_be_limited() -> None:
    text = """
func @main(%x: f32[2]) {
  %y = while @yes do @body carried(%x) : f32[2]
  return %y
}
func @yes(%x: f32[2]) {
  return true
}
func @body(%x: f32[2]) {
  %y = call list::neg(%x) : f32[2]
  return %y
}
"""
    with pytest.raises(ExecutionError, match="WIR928"):
        execute(text, tensor(X), options=InterpOptions(max_ops=50))


def test_steps_show_every_op_before_it_runs() -> None:
    text = """
func @main(%x: f32[2]) {
  define s0 = size(%x, 0)
  %y = call_subgraph @negate(%x) : f32[2]
  return %y
}
func @negate(%x: f32[2]) captures(s0) {
  %y = call list::neg(%x) : f32[2]
  return %y
}
"""
    seen = [
        (
            s.depth,
            s.function.name,
            s.position,
            type(s.op).__name__,
            sorted(v.name for v in s.values),
            dict(s.symbols),
        )
        for s in steps(artifact(text), [tensor(X)], ListMachine(), OPTIONS)
    ]
    assert seen == [
        (0, "main", 0, "Define", ["x"], {}),
        (0, "main", 1, "CallSubgraph", ["x"], {"s0": 2}),
        (1, "negate", 0, "CallExtern", ["x"], {"s0": 2}),
        (1, "negate", 1, "Return", ["x", "y"], {"s0": 2}),
        (0, "main", 2, "Return", ["x", "y"], {"s0": 2}),
    ]


def test_debug_values_go_to_the_hook() -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    def hook(op: ir.DebugValue, held: dict[str, Any]) -> None:
        seen.append((op.label, {name: x.tolist() for name, x in held.items()}))

    options = InterpOptions(debug=hook, find_runtime=find_runtime)
    execute(main('debug print %x "here"\nreturn'), tensor(X), options=options)
    assert seen == [("here", {"x": X})]


def test_debug_values_of_a_kernel_go_to_the_hook() -> None:
    seen: list[tuple[ir.DebugPhase, str, dict[str, Any]]] = []
    options = InterpOptions(
        debug=lambda op, held: seen.append((op.phase, op.callee, dict(held))), find_runtime=find_runtime
    )
    body = """
    %y = alloc f32[2]
    debug names before launch "double" %y, %n
    launch @double(%x, %y, 2)
    debug names after launch "double" %n
    return %y
    """
    execute(main(body, "%x: f32[2], %n: int"), tensor(X), 7, options=options)
    (before, kernel, held), after = seen
    assert (before, kernel, held["n"]) == (ir.DebugPhase.BEFORE, "double", 7)
    assert after == (ir.DebugPhase.AFTER, "double", {"n": 7})


def test_debug_values_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    body = """
    define s0 = size(%x, 0)
    debug print inputs %x, %n numbers(2*s0)
    debug print before launch "double" %x "here"
    debug names before launch "double"
    debug names %x "after attention"
    return
    """
    execute(main(body, "%x: f32[s0], %n: int"), tensor(X), 7)
    assert capsys.readouterr().out.splitlines() == [
        "aoti_model_inputs - x",
        "  f32[2] strides [1] on cpu",
        "  [1, -2]",
        "aoti_model_inputs - n",
        "  int 7",
        "aoti_model_inputs - 2*s0",
        "  int 4",
        "here - before_launch - double - x",
        "  f32[2] strides [1] on cpu",
        "  [1, -2]",
        "[ before_launch: double ]",
        "after attention - x",
    ]


def test_debug_values_are_saved(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "not yet" / "there"
    body = f'debug save after launch "a::b" %x, %n to "{folder}"\n' * 2 + "return"
    execute(main(body, "%x: f32[2], %n: int"), tensor(X), 7)
    assert capsys.readouterr().out == ""
    assert sorted(p.name for p in folder.iterdir()) == [
        "after_launch_a__b_x.safetensors",
        "after_launch_a__b_x_1.safetensors",
    ]
    raw = (folder / "after_launch_a__b_x.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    assert json.loads(raw[8 : 8 + length]) == {
        "__metadata__": {"phase": "after", "kernel": "a::b", "arg": "x", "dtype": "f32"},
        "after_launch_a__b_x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    }
    assert struct.unpack("<2f", raw[8 + length :]) == tuple(X)


def test_memory_is_counted() -> None:
    body = """
    %a = alloc f32[2]
    %b = call list::neg(%x) : f32[2]
    free %a.s
    %t = call list::split(%x) : results
    %c = unpack %t[0] : f32[2]
    drop %t
    free %b
    return %c
    """
    interpreter = Interpreter(artifact(main(body)), ListMachine(), OPTIONS)
    interpreter.boxed([tensor(X)])
    report = interpreter.memory
    assert (report.storages, report.total_bytes, report.peak_bytes, report.live_bytes) == (3, 24, 16, 8)
