"""The commands of `wir step`."""

from __future__ import annotations

import cmd
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from wrapper_ir import ir
from wrapper_ir.artifact.sources import line_at, source_folders, source_texts
from wrapper_ir.errors import DebugError, WirError
from wrapper_ir.text import print_excerpt, print_op
from wrapper_ir_runtime.tensor_text import scalar_text
from wrapper_ir_tools.debugger.breakpoints import FORMS, condition_of, parse_breakpoint
from wrapper_ir_tools.debugger.changes import make_change
from wrapper_ir_tools.debugger.conditions import evaluate_condition
from wrapper_ir_tools.debugger.contents import Content, content_of
from wrapper_ir_tools.debugger.controller import Controller, Watch
from wrapper_ir_tools.debugger.elements import element
from wrapper_ir_tools.debugger.places import source_line

_VALUE = re.compile(r"%(?P<name>[^\[\]\s]+)\s*(?:\[(?P<index>[-\d,\s]*)\])?")


class Console(cmd.Cmd):
    """Reads commands from standard input or from a list.

    Errors are printed and the session continues. `failed` is True after an error.
    """

    prompt = "(wir) "
    intro = None

    def __init__(self, controller: Controller, stdout: IO[str], folders: Sequence[Path] = ()) -> None:
        super().__init__(stdout=stdout)
        self.controller = controller
        self.failed = False
        self._folders = folders
        self._numbers = 0
        self.identchars += "-"

    # --- around commands

    def say(self, *lines: str) -> None:
        """Writes lines."""
        for line in lines:
            self.stdout.write(f"{line}\n")

    def onecmd(self, line: str) -> bool:
        """Runs one command; prints an error that it raises."""
        try:
            return bool(super().onecmd(line))
        except WirError as error:
            self.failed = True
            self.say(f"error: {error}")
            return False

    def default(self, line: str) -> None:
        """Handles a word that is not a command: a unique prefix of a command runs it."""
        if line.startswith("#"):
            return
        word, _, rest = line.partition(" ")
        commands = [name[3:] for name in self.get_names() if name.startswith("do_")]
        candidates = (
            [_SHORT[word]] if word in _SHORT else [name for name in commands if name.startswith(word)]
        )
        if len(candidates) == 1:
            self.onecmd(f"{candidates[0]} {rest}")
            return
        self.failed = True
        what = (
            f"could be {', '.join(sorted(candidates))}"
            if candidates
            else "is not a command; `help` lists all"
        )
        self.say(f"error: {word!r} {what}")

    def emptyline(self) -> bool:
        """Ignores an empty line, which a script may contain."""
        return False

    def completenames(self, text: str, *ignored: Any) -> list[str]:  # Any: as in `cmd.Cmd`
        """Completes names of commands."""
        return [name for name in super().completenames(text, *ignored) if name != "EOF"]

    def completedefault(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Completes values, kernels, functions and symbols that begin with the text before the cursor."""
        word = line[:end].split(" ")[-1]
        program = self.controller.subject.program
        names: list[str] = [f"%{v.name}" for v in self._values()]
        names += [f"@{k.name}" for k in program.kernels] + [f"@{f.name}:" for f in program.functions]
        names += [s.name for s in program.symbols]
        # readline completes only the text after its delimiters
        skip = len(word) - len(text)
        return sorted({name[skip:] for name in names if name.startswith(word)})

    # --- position

    def show(self) -> None:
        """Prints why the run stopped, and its position."""
        controller = self.controller
        if controller.reason:
            self.say(controller.reason)
        if controller.failure is not None:
            self.say(str(controller.failure), *getattr(controller.failure, "__notes__", ()))
        elif controller.results is not None:
            machine = controller.subject.machine
            for number, result in enumerate(controller.results):
                text = self._result_text(result) if machine.is_tensor(result) else repr(result)
                self.say(f"result {number}: {text}")
        else:
            step = controller.step
            self.say(f"@{step.function.name} op {step.position}: {print_op(step.op)}")

    def _result_text(self, result: Any) -> str:  # Any: the machine's tensor
        main = self.controller.subject.program.main
        machine = self.controller.subject.machine
        values = [v for v in main.returns.values if isinstance(v, ir.Value)]
        assert self.controller.results is not None
        tensors = [x for x in self.controller.results if machine.is_tensor(x)]
        by_result = dict(zip(map(id, tensors), values))
        return content_of(by_result[id(result)], result, machine).short()

    def do_where(self, arg: str) -> None:
        """where: the op in each activation, innermost last, and where the innermost comes from."""
        for depth, step in enumerate((*self.controller.stack[:-1], self.controller.step)):
            self.say(f"#{depth} @{step.function.name} op {step.position}: {print_op(step.op)}")
        step = self.controller.step
        self.say(source_line(step.function, step.position) or "the source of this op is not known")

    def do_list(self, arg: str) -> None:
        """list [N]: the op about to run with N ops on each side (5)."""
        step = self.controller.step
        around = int(arg) if arg.strip().isdecimal() else 5
        self.say(*print_excerpt(step.function, step.position, around=around).splitlines())

    def do_source(self, arg: str) -> None:
        """source: the lines of the model's source that the op comes from, if the artifact or this machine has
        them.
        """
        locations = self.controller.step.op.prov.locations
        if not locations:
            self.say("the source of this op is not known")
        folders, recorded = source_folders(self._folders), source_texts(self.controller.subject.artifact)
        for place in locations:
            now, then = line_at(place, folders), recorded.get(place, "").strip()
            if then and now is not None and now != then:
                self.say(f"{place}: {then} (the file has `{now}` now)")
            else:
                text = now or then
                self.say(
                    f"{place}: {text}"
                    if text
                    else f"{place} (neither the artifact nor this machine has its text)"
                )

    # --- moving

    def _moved(self, move: Callable[[], None]) -> None:
        move()
        self.show()

    def do_step(self, arg: str) -> None:
        """step: run one op, or enter the function that it calls (s)."""
        self._moved(self.controller.into)

    def do_next(self, arg: str) -> None:
        """next: run one op with all that it calls (n)."""
        self._moved(self.controller.over)

    def do_finish(self, arg: str) -> None:
        """finish: run to the end of the function (f)."""
        self._moved(self.controller.out)

    def do_continue(self, arg: str) -> None:
        """continue: run on to the next breakpoint or watch, or to the end (c)."""
        self._moved(self.controller.go_on)

    def do_back(self, arg: str) -> None:
        """back [N]: go back N ops (1), by running again from a kept state."""
        count = int(arg) if arg.strip().isdecimal() else 1
        self._moved(lambda: self.controller.back_to(self.controller.tick - count))

    def do_restart(self, arg: str) -> None:
        """restart: go to the begin, and forget changes."""
        self._moved(self.controller.restart)

    # --- stopping

    def do_break(self, arg: str) -> None:
        """break: list breakpoints. break PLACE [if CONDITION], break if CONDITION: stop there (b)."""
        if not arg.strip():
            for point in self.controller.breakpoints:
                self.say(f"{point.number}: {point.text} ({point.hits} hits)")
            return
        self._numbers += 1
        point = parse_breakpoint(self._numbers, arg.strip(), self.controller.subject.analyses)
        self.controller.breakpoints.append(point)
        count = "" if point.places is None else f", {len(point.places)} ops"
        self.say(f"breakpoint {point.number}: {point.text}{count}")

    def help_break(self) -> None:
        """Prints the help of `break` with the forms of a location."""
        self.say(str(self.do_break.__doc__), f"PLACE is one of: {FORMS}.")

    def do_delete(self, arg: str) -> None:
        """delete [N]: remove breakpoint N, or all breakpoints and watches."""
        controller = self.controller
        number = int(arg) if arg.strip().isdecimal() else None
        remaining = [p for p in controller.breakpoints if number is not None and p.number != number]
        if number is None:
            controller.watches = []
        elif len(remaining) == len(controller.breakpoints):
            raise DebugError("WIR957", f"breakpoint {number} does not exist", hint="`break` lists them")
        controller.breakpoints = remaining

    def do_watch(self, arg: str) -> None:
        """watch: list watches. watch %VALUE: stop after each op that changes its content."""
        if not arg.strip():
            self.say(*(f"%{w.value.name}" for w in self.controller.watches))
            return
        value, _ = self._value(arg)
        self.controller.watches.append(Watch(value, self.controller.content(value)))
        self.say(f"watching %{value.name}")

    # --- inspecting and changing

    def do_print(self, arg: str) -> None:
        """print: what the op uses. print %VALUE, %VALUE[I, J], SYMBOL or an expression: its value (p)."""
        if not arg.strip():
            self._print_values(ir.operands(self.controller.step.op))
        elif _VALUE.fullmatch(arg.strip()):
            self.say(*self._content(arg).lines())
        else:
            subject = self.controller.subject
            condition = condition_of(arg, subject.program)
            self.say(scalar_text(evaluate_condition(condition, self.controller.step, subject.machine)))

    def do_info(self, arg: str) -> None:
        """info: a line about each tensor and number that the function holds."""
        self._print_values(self.controller.step.values)

    def do_symbols(self, arg: str) -> None:
        """symbols: those that have a value here."""
        self.say(*(f"{name} = {value}" for name, value in self.controller.step.symbols.items()))

    def do_set(self, arg: str) -> None:
        """set %VALUE = EXPRESSION, set %VALUE[I, J] = EXPRESSION, set SYMBOL = EXPRESSION: change it.

        Repeated runs apply the change again.
        """
        target, separator, text = arg.partition("=")
        if not separator:
            raise DebugError("WIR959", "expected `set TARGET = EXPRESSION`")
        subject, step = self.controller.subject, self.controller.step
        number = evaluate_condition(condition_of(text, subject.program), step, subject.machine)
        target = target.strip()
        if target.startswith("%"):
            value, index = self._value(target)
            self.controller.change(make_change(value, index, number, subject.machine))
        elif target in step.symbols:
            self.controller.change(lambda step: step.frame.symbols.__setitem__(target, number))
        else:
            raise DebugError("WIR959", f"{target} is neither a value nor a symbol that has a value here")

    def _print_values(self, values: Iterable[ir.Value]) -> None:
        for value in dict.fromkeys(values):
            content = None if ir.is_storage(value) else self._try_content(value)
            if content is not None:
                self.say(f"%{value.name}: {content.short()}")

    def _try_content(self, value: ir.Value) -> Content | None:
        content = self.controller.content(value)
        return content if content is not None and content.is_plain else None

    def _values(self) -> list[ir.Value]:
        constants = [c.value for c in self.controller.subject.program.constants]
        return [*(self.controller.stack[-1].values if self.controller.stack else ()), *constants]

    def _value(self, text: str) -> tuple[ir.Value, tuple[int, ...] | None]:
        """Resolves a value of the current function and the index after its name. Raises DebugError WIR959."""
        match = _VALUE.fullmatch(text.strip())
        values = [v for v in self._values() if match is not None and v.name == match["name"]]
        if match is None or not values:
            near = sorted(v.name for v in ir.results(self.controller.step.op))
            hint = (
                f"the op about to run defines %{near[0]}" if near else "`info` lists what the function holds"
            )
            raise DebugError("WIR959", f"{text.strip()} holds nothing here", hint=hint)
        index = match["index"]
        if index is None:
            return values[0], None
        try:
            return values[0], tuple(int(part) for part in index.split(",") if part.strip())
        except ValueError as error:
            raise DebugError("WIR959", f"[{index}] is not an index") from error

    def _content(self, text: str) -> Content:
        value, index = self._value(text)
        subject = self.controller.subject
        if index is None:
            content = self.controller.content(value)
            # `_value` has checked that the frame has it
            assert content is not None
            return content
        tensor = self.controller.step.frame.value(value)
        return content_of(value, element(tensor, value, index, subject.machine), subject.machine)

    # --- the end

    def do_quit(self, arg: str) -> bool:
        """quit: end the session (q)."""
        return True

    # `cmd` calls this name at the end of the input
    def do_EOF(self, arg: str) -> bool:
        """Ends the session at the end of the input."""
        return True


_SHORT = {
    "b": "break",
    "c": "continue",
    "f": "finish",
    "n": "next",
    "p": "print",
    "q": "quit",
    "s": "step",
    "w": "where",
    "l": "list",
}
