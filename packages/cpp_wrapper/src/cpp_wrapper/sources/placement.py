"""Writes scopes of profilers, and events of the host, which have happened when they are recorded."""

from __future__ import annotations

from cpp_wrapper.sources.scope import FunctionScope
from wrapper_ir.lowering import steps
from wrapper_ir.quoting import cpp_line_comment, cpp_string

__all__ = ["barrier", "enter_profile", "exit_scope", "record_event", "sync_event", "wait_event"]


def barrier(step: steps.Barrier, scope: FunctionScope) -> None:
    """Calls stay in order; the reader is told why they have it."""
    scope.line("// barrier")


def record_event(step: steps.RecordEvent, scope: FunctionScope) -> None:
    """Nothing is queued on the host."""
    _on_host(step.on_host, f"event {step.result.name}: it has happened already", scope)


def wait_event(step: steps.WaitEvent, scope: FunctionScope) -> None:
    """The event has happened."""
    _on_host(step.on_host, f"wait for {step.event.name}: it has happened already", scope)


def sync_event(step: steps.SyncEvent, scope: FunctionScope) -> None:
    """The event has happened: a program for the CPU has no others."""
    _on_host(True, f"synchronise with {step.event.name}: it has happened already", scope)


def _on_host(on_host: bool, text: str, scope: FunctionScope) -> None:
    if not on_host:
        raise scope.error("CPP503", "an event of another device: this edition writes programs for the CPU")
    scope.line(f"// {cpp_line_comment(text)}")


def enter_profile(step: steps.EnterProfile, scope: FunctionScope) -> None:
    """torch's operators for scopes; one that is open where the function fails ends with its handle."""
    handle = f"t[{scope.slot('profile')}]"
    scope.profiles.append(handle)
    texts = ", ".join(f"{cpp_string(text)}, {len(text.encode())}" for text in (step.name, step.details))
    scope.line(f"enter_profile({handle}, {texts});")


def exit_scope(step: steps.ExitScope, scope: FunctionScope) -> None:
    """The innermost scope: a program for the CPU has none but those of profilers."""
    scope.line(f"exit_profile({scope.profiles.pop()});")
