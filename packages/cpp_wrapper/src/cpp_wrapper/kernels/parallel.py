"""Carries exceptions of kernels out of their OpenMP regions.

An exception that leaves a thread's part of a region ends the process (OpenMP 5.2, section 2.2: it must be caught by the thread that
threw it, inside the same construct). Inductor's kernels check indices there by `TORCH_CHECK`. So the body of every construct is
put into a `try`; the region keeps the first exception and throws it again at its end. A `try` costs nothing until something is
thrown. Other iterations run on: all that they read is checked by themselves.

A construct that is not recognised stays as it is, and so does a thread's own code beside worksharing constructs, which the
other threads would wait for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

CAUGHT = """\
#include <atomic>
#include <exception>
namespace wrapper_ir_launch {
class Caught {
 public:
  Caught() = default;
  Caught(const Caught&) = delete;
  [[gnu::cold, gnu::noinline]] void keep() noexcept {
    if (!is_set_.exchange(true)) error_ = std::current_exception();
  }
  void rethrow() {
    if (__builtin_expect(is_set_.load(std::memory_order_relaxed), false)) std::rethrow_exception(error_);
  }

 private:
  std::atomic<bool> is_set_{false};
  std::exception_ptr error_;
};
}  // namespace wrapper_ir_launch
"""
"""C++ helpers of rewritten kernels."""

_BEGIN = "{ ::wrapper_ir_launch::Caught wir_caught; "
_TRY = " try {"
_CATCH = "} catch (...) { wir_caught.keep(); } "
_END = " wir_caught.rethrow(); }"

_HIDDEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
"""Comments and literals, whose braces mean nothing."""
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+omp[ \t]+([^\n]*)$", re.MULTILINE)
_LOOP = re.compile(r"\s*for\s*\(")
_BLOCK = re.compile(r"\s*\{")
_COLLAPSE = re.compile(r"\bcollapse\s*\(\s*(\d+)\s*\)")
_THROWS = re.compile(r"\b(?:TORCH_CHECK|throw)\b")
_MAY_THROW = re.compile(
    r"\b(?:\w*CHECK\w*|throw|new|std::(?:vector|string|function|make_\w+|to_string|sto\w+))\b|\.at\("
)
"""Words of a source that throws, in its regions or in functions that they call."""
_SHARING = frozenset({"for", "single", "sections", "barrier", "task", "taskloop", "cancel", "loop"})
"""Directives that the threads of a region reach together."""
_BLOCKS = frozenset({"single", "critical", "master", "masked"})


@dataclass(slots=True)
class _Directive:
    """A directive and the statement that it is about: `opening` is the brace of the innermost body, `end` is after the whole."""

    start: int
    clauses: str
    words: tuple[str, ...]
    body: int
    opening: int
    closing: int
    end: int


@dataclass(slots=True)
class _Edits:
    """Insertions by position; of two at one position the later one comes first, which is the inner construct's."""

    texts: list[tuple[int, int, str]] = field(default_factory=list)

    def insert(self, position: int, text: str) -> None:
        self.texts.append((position, -len(self.texts), text))

    def apply(self, source: str) -> str:
        parts: list[str] = []
        done = 0
        for position, _, text in sorted(self.texts):
            parts += (source[done:position], text)
            done = position
        return "".join((*parts, source[done:]))


def contained(source: str) -> str:
    """The source with the exceptions of its parallel regions thrown again after them; the source itself if it has no regions, or
    nothing in it throws: what keeps exceptions takes a twentieth of a kernel's code. Lines keep their numbers."""
    if not is_changed(source):
        return source
    text = _HIDDEN.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), source)
    directives = list(_directives(text))
    regions = [one for one in directives if _is_region(one, text)]
    edits = _Edits()
    pragmas: dict[int, str] = {}
    for one in directives:
        inside = [other for other in directives if one.body <= other.start < one.end]
        if one in regions:
            pragmas[one.start] = f'{_BEGIN}_Pragma("omp {one.clauses.strip()}")'
            edits.insert(one.end, _END)
        elif one.words[0] == "simd" or not any(region.body <= one.start < region.end for region in regions):
            continue
        if _is_wrapped(one, inside):
            edits.insert(one.opening + 1, _TRY)
            edits.insert(one.closing, _CATCH)
    for start, pragma in pragmas.items():
        edits.insert(start, pragma + "//")  # the directive itself becomes a comment
    return edits.apply(source)


def is_changed(source: str) -> bool:
    """Whether a source may have exceptions inside regions."""
    return "#pragma omp" in source and _MAY_THROW.search(source) is not None


def _is_region(one: _Directive, text: str) -> bool:
    """Whether exceptions are kept for this construct."""
    if "default" in one.words:
        return False  # the construct names the variables that it shares
    if one.words[0] == "parallel":
        return True
    return one.words[0] == "simd" and _THROWS.search(text, one.body, one.end) is not None


def _is_wrapped(one: _Directive, inside: list[_Directive]) -> bool:
    """Whether the body can be left by an exception without others waiting for this thread."""
    if one.words[0] in _BLOCKS or "for" in one.words or one.words[0] == "simd":
        return True
    return one.words[0] == "parallel" and not any(_SHARING & set(other.words) for other in inside)


def _directives(text: str) -> Iterator[_Directive]:
    """The directives whose statement can be read, in order."""
    for found in _PRAGMA.finditer(text):
        clauses = found.group(1)
        words = tuple(re.findall(r"\w+", re.sub(r"\([^()]*\)", " ", clauses)))
        if "default" in clauses:
            words = (*words, "default")
        if not words or clauses.rstrip().endswith("\\"):
            continue
        directive = _statement(text, found.start(), found.end(), clauses, words)
        yield directive or _Directive(
            found.start(), clauses, ("barrier", *words), found.end(), 0, 0, found.end()
        )


def _statement(text: str, start: int, body: int, clauses: str, words: tuple[str, ...]) -> _Directive | None:
    """The statement after a directive: a block, or as many loops as it speaks of, whose bodies are blocks."""
    collapse = _COLLAPSE.search(clauses)
    loops = int(collapse.group(1)) if collapse else int("for" in words or "simd" in words)
    position, openings = body, []
    for _ in range(loops):
        loop = _LOOP.match(text, position)
        position = _matching(text, loop.end() - 1) + 1 if loop else 0
        block = _BLOCK.match(text, position)
        if not position or block is None:
            return None
        openings.append(block.end() - 1)
        position = block.end()
    if not loops:
        block = _BLOCK.match(text, position)
        if block is None:
            return None
        openings.append(block.end() - 1)
    closing, last = _matching(text, openings[-1]), _matching(text, openings[0])
    if closing < 0 or last < 0:
        return None
    return _Directive(start, clauses, words, body, openings[-1], closing, last + 1)


def _matching(text: str, opening: int) -> int:
    """The position of the bracket that closes the one at `opening`, -1 if none does."""
    depth = 0
    for found in re.compile(r"[(){}\[\]]").finditer(text, opening):
        depth += 1 if found.group() in "({[" else -1
        if depth == 0:
            return found.start()
    return -1
