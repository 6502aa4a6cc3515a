"""Text of a program in C++ source: one translation unit with many texts compiles and prints each
unchanged."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packages.wrapper_ir.tests.quoting.hostile import texts

from wrapper_ir.support.quoting import (
    cpp_block_comment,
    cpp_identifier,
    cpp_line_comment,
    cpp_message,
    cpp_names,
    cpp_string,
    is_cpp_name,
)

COMPILER = shutil.which("g++")
HEAD = """#include <cstdio>
#include <string_view>
int fired = 0;
int fire() { return fired = 1; }
"""
# Code that would run where a text ends its comment or string; `fired` is then 1, or the unit does not compile.
CPP = (
    '"; int a = fire(); "',
    "\nint b = fire();\n",
    "*/ int c = fire(); /*",
    "\\\n",
    "??/\nint d = fire(); //",
    "\\ ",
)
cpp_texts = st.lists(texts(0) | st.sampled_from(CPP), min_size=1, max_size=3).map("".join)


def unit(texts: Sequence[str]) -> str:
    """Returns source that prints length and bytes of each text, between comments that must not hide code."""
    namer = cpp_names(("main", "fired", "fire"))
    lines = [HEAD]
    body = []
    for number, text in enumerate(texts):
        name = namer(text)
        lines += [
            f"// {cpp_line_comment(text)}",
            f"static constexpr std::string_view {name}{{{cpp_string(text)}, sizeof({cpp_string(text)}) - 1}};",
            f"/*{cpp_block_comment(text)}*/ static_assert({name}.size() < 100000, {cpp_message(text)});",
            f"#line {number + 1} {cpp_message(text)}",
        ]
        body.append(
            f'std::printf("%zu ", {name}.size()); std::fwrite({name}.data(), 1, {name}.size(), stdout); // {cpp_line_comment(text)}'
        )
    lines.append("int main() {")
    lines += body
    lines.append("return fired; }")
    return "\n".join(lines) + "\n"


def run(source: str, standard: str, folder: Path) -> bytes:
    assert COMPILER is not None
    file, program = folder / "unit.cpp", folder / "unit"
    file.write_text(source, encoding="utf-8", newline="")
    command = [COMPILER, f"-std={standard}", "-Wall", "-Werror", str(file), "-o", str(program)]
    process = subprocess.run(command, capture_output=True, check=False)
    assert process.returncode == 0, process.stderr.decode(errors="replace")[:2000]
    return subprocess.run([program], check=True, capture_output=True).stdout


@pytest.mark.skipif(COMPILER is None, reason="there is no g++")
@pytest.mark.parametrize("standard", ["gnu++17", "c++14"])  # c++14 has trigraphs
def test_a_unit_of_texts(standard: str, tmp_path: Path) -> None:
    """Compiles many random texts at once, where hypothesis would compile a unit for each."""
    chosen: list[str] = [*CPP, "", "\0", "\ud800", "???/", "a" * 300]

    @settings(max_examples=150, database=None, derandomize=True)
    @given(cpp_texts)
    def collect(text: str) -> None:
        chosen.append(text)

    collect()
    text = unit(chosen)
    if standard == "c++14":
        text = text.replace("#include <string_view>", STRING_VIEW)
    printed = run(text, standard, tmp_path)
    raw = [t.encode("utf-8", "surrogatepass") for t in chosen]
    assert printed == b"".join(b"%d %s" % (len(r), r) for r in raw)


STRING_VIEW = """#include <cstddef>
namespace std { struct string_view {
  const char* text; size_t count;
  constexpr size_t size() const { return count; }
  constexpr const char* data() const { return text; }
}; }
"""


@given(cpp_texts)
def test_everything_is_one_line(text: str) -> None:
    for quoted in (cpp_string(text), cpp_message(text), cpp_line_comment(text), cpp_block_comment(text)):
        assert quoted.isprintable()
        assert "??" not in quoted
    assert "\\" not in cpp_line_comment(text)[-1:]
    assert "*/" not in cpp_block_comment(text)


@given(st.lists(cpp_texts, max_size=20))
def test_names_are_distinct_identifiers(wishes: list[str]) -> None:
    namer = cpp_names(("slots",))
    names = [namer(wish) for wish in wishes]
    assert len({*names, "slots"}) == len(names) + 1
    assert all(map(is_cpp_name, names))
    assert all(is_cpp_name(cpp_identifier(wish)) for wish in wishes)


def test_what_is_no_name() -> None:
    assert not any(map(is_cpp_name, ("int", "_X", "a__b", "é", "", "1", "a b", "and", "a\n", "co_await")))
    assert all(map(is_cpp_name, ("x", "_x", "x_", "Int", "class_")))
