"""Reasons why a case fails, or does not count: the same words for the same cause, so that cases can be
grouped.

Texts of errors are for debugging; they change with versions and contain generated names.
"""

from __future__ import annotations

import re

from tools.conformance.stages import CRASH, Failure

# Code (empty: any), text in the message, the reason. The first matching row counts.
_FAILURES: tuple[tuple[str, str, str], ...] = (
    (CRASH, "no answer", "The case did not end in time."),
    (CRASH, "", "The process that ran the case died."),
    ("Mismatch", "not close|not equal", "The results are further from the expected ones than the tolerances allow."),
    ("Mismatch", "another program", "The program that is read back is not the one that was written."),
    ("Mismatch", "", "The results have another structure, dtype or size than expected."),
    ("BackendCompilerFailed", "WIR901", "torch.compile compiles again in a call with equal inputs."),
    ("", "(?i)sparse", "Sparse tensors have no type in the IR: they have neither strides nor a storage."),
    (
        "FE101",
        "depends? on data|data-dependent|unbacked|item NYI",
        "torch.export refuses it: what it does depends on the values of tensors.",
    ),
    ("FE101", "", "torch.export refuses it."),
    ("FE102", "", "An input or output has a type that no signature can state."),
    ("FE104", "", "Inductor cannot lower the graph."),
    ("NotImplementedError", "", "Inductor does not implement it."),
)  # fmt: skip

_STOCK: tuple[tuple[str, str], ...] = (
    ("^eager: .*Jiterator", "Eager cannot run it without a GPU."),
    ("^eager:", "Eager cannot run it."),
    ("^Mismatch: .*not close|^Mismatch: .*not equal", "Its results are not eager's."),
    ("^Mismatch", "Its results have another structure, dtype or size than eager's."),
    ("^killed by|^exit status", "Its process dies."),
    ("^no answer", "It does not end in time."),
    ("(?i)sparse|csr", "It refuses sparse tensors."),
    ("(?i)cppcompileerror|c\\+\\+ compile error", "It writes a kernel that the C++ compiler refuses."),
    ("^(Backend|Lowering|Inductor)", "Its lowering fails."),
    ("^(TorchRuntimeError|Unsupported|UserError|InternalTorchDynamoError)", "Its tracing fails."),
    ("", "It fails."),
)


def failure_reason(failure: Failure) -> str:
    """Why the case fails there, as one sentence."""
    for code, pattern, words in _FAILURES:
        if code in ("", failure.code) and re.search(pattern, failure.reason):
            return words
    return f"It is refused with {failure.code}."


def failure_detail(failure: Failure) -> str:
    """The first sentence of the error's own message, with numbers where results differ."""
    text = failure.reason.removeprefix(f"[{failure.code}] ").split(" hint: ")[0]
    apart = re.search(
        r"Mismatched elements: (\d+ / \d+).*?Greatest absolute difference: (\S+).*?\(up to (\S+) allowed\)",
        text,
    )
    if apart:
        return f"{apart[1]} elements differ, by up to {apart[2]} where {apart[3]} is allowed"
    return re.split(r"(?<=[^.])\. | in @main, ", text)[0].rstrip(".")


def stock_reason(error: str) -> str:
    """Why Inductor's error keeps a case from counting, as one sentence."""
    return next(words for pattern, words in _STOCK if re.search(pattern, error))
