"""Texts that would run, break a line or end a string if they are not quoted, for the tests of every
emitter."""

from __future__ import annotations

import os

from hypothesis import strategies as st

FIRED = "WIR_TEST_FIRED"
PAYLOAD = f"__import__('os').environ.__setitem__('{FIRED}', '1')"
"""An expression without double quotes, whose evaluation `did_fire` detects."""

_PIECES = (
    *('"', "'", '"""', "'''", "\\", "\\\\", "\n", "\r", "\r\n", "\t", "\f", "\v", "\0", "\x1b[31m", "\x85"),
    *("\u2028", "\u2029", "\u200f", "\u202e", "\u2066", "\ufeff", "\ud800", "\udfff", "\ud800\udc00"),
    *(
        "??/",
        "??/\n",
        "\\\n",
        "\\ \n",
        "*/",
        "/*",
        "//",
        "#",
        "%",
        "{",
        "}",
        "{x}",
        "%(prog)s",
        "$",
        "`",
        ";",
        ":",
    ),
    *(
        "class",
        "None",
        "__debug__",
        "__file__",
        "__builtins__",
        "int",
        "main",
        "args",
        "torch",
        "stream1",
        "forward",
    ),
    *(
        "training",
        "memory0",
        "buffer_pool",
        "x" * 130,
        "a b " * 40,
        "é",
        "ﬁ",
        "名",
        "_",
        "__x",
        "9",
        "-*- coding: utf-7 -*-",
    ),
    *(
        f'"""\n{PAYLOAD}\n"""',
        f"\n{PAYLOAD}\n",
        f"\r{PAYLOAD}\r",
        f'");{PAYLOAD}#',
        f"');{PAYLOAD}#",
        f"\\\n{PAYLOAD}\n",
    ),
    *(
        f"*/{PAYLOAD}/*",
        f"\u2028{PAYLOAD}\u2028",
        f"}} {PAYLOAD} {{",
        f"x,{PAYLOAD}",
        f"x={PAYLOAD}",
        f"x.{PAYLOAD}",
    ),
)


def texts(min_size: int = 1) -> st.SearchStrategy[str]:
    """Returns a strategy of texts, mostly of characters with a meaning for compilers."""
    anything = st.text(st.characters(), max_size=4)
    odd = st.lists(st.sampled_from(_PIECES) | anything, min_size=min_size, max_size=5).map("".join)
    return (odd | odd.map(lambda text: text * 30)).filter(lambda text: len(text) >= min_size)


def did_fire() -> bool:
    """Returns whether the payload has run, and resets it."""
    return os.environ.pop(FIRED, None) is not None
