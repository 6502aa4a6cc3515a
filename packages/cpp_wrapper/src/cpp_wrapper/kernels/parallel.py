"""Propagates exceptions of kernels out of their OpenMP regions.

An exception that leaves a construct in one thread ends the process (OpenMP 5.2, section 2.2: the thread that
threw it must catch it inside the same construct). Inductor's kernels check indices there by `TORCH_CHECK`.
The body of every construct therefore becomes a `try` block; the region stores the first exception and
rethrows it at its end. A `try` costs nothing until an exception is thrown. Other iterations continue: each
checks the indices that it reads.

Unknown constructs stay unchanged. So does code of a region beside worksharing constructs: other threads would
wait there for a thread that left it by an exception.
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
    r'//[^\n]*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
"""Comments and literals, whose braces are ignored."""
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+omp[ \t]+([^\n]*)$", re.MULTILINE)
_LOOP = re.compile(r"\s*for\s*\(")
_BLOCK = re.compile(r"\s*\{")
_COLLAPSE = re.compile(r"\bcollapse\s*\(\s*(\d+)\s*\)")
_THROWS = re.compile(r"\b(?:TORCH_CHECK|throw)\b")
_MAY_THROW = re.compile(
    r"\b(?:\w*CHECK\w*|throw|new|std::(?:vector|string|function|make_\w+|to_string|sto\w+))\b|\.at\("
)
"""Words of a source that can throw, in its regions or in functions called there."""
_SHARING = frozenset({"for", "single", "sections", "barrier", "task", "taskloop", "cancel", "loop"})
"""Directives that all threads of a region must reach."""
_BLOCKS = frozenset({"single", "critical", "master", "masked"})


@dataclass(slots=True)
class _Directive:
    """A directive and its statement, as positions: `opening` is the brace of the innermost body, `end`
    follows all.
    """

    start: int
    clauses: str
    words: tuple[str, ...]
    body: int
    opening: int
    closing: int
    end: int


@dataclass(slots=True)
class _Edits:
    """Insertions by position. Of two at one position, the later one, of the inner construct, comes first."""

    texts: list[tuple[int, int, str]] = field(default_factory=list)

    def insert(self, position: int, text: str) -> None:
        self.texts.append((position, -len(self.texts), text))

    def apply(self, source: str) -> str:
        parts: list[str] = []
        end = 0
        for position, _, text in sorted(self.texts):
            parts += (source[end:position], text)
            end = position
        return "".join((*parts, source[end:]))


def contained(source: str) -> str:
    """Returns the source with exceptions of its parallel regions rethrown after them.

    Line numbers stay the same.

    A source without regions, or without code that throws, is returned unchanged: the handlers are a twentieth
    of a kernel's code.
    """
    if not is_changed(source):
        return source
    text = _HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)
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
    """Returns whether exceptions are possible inside regions of a source."""
    return "#pragma omp" in source and _MAY_THROW.search(source) is not None


def _is_region(one: _Directive, text: str) -> bool:
    """Returns whether this construct stores exceptions and rethrows them."""
    if "default" in one.words:
        return (
            False  # the construct must list its shared variables, and the stored exception is not among them
        )
    if one.words[0] == "parallel":
        return True
    return one.words[0] == "simd" and _THROWS.search(text, one.body, one.end) is not None


def _is_wrapped(one: _Directive, inside: list[_Directive]) -> bool:
    """Returns whether an exception can leave the body without other threads waiting for this one."""
    if one.words[0] in _BLOCKS or "for" in one.words or one.words[0] == "simd":
        return True
    return one.words[0] == "parallel" and not any(_SHARING & set(other.words) for other in inside)


def _directives(text: str) -> Iterator[_Directive]:
    """Yields the directives in order. An unknown statement counts as a barrier."""
    for pragma in _PRAGMA.finditer(text):
        clauses = pragma.group(1)
        words = tuple(re.findall(r"\w+", re.sub(r"\([^()]*\)", " ", clauses)))
        if "default" in clauses:
            words = (*words, "default")
        if not words or clauses.rstrip().endswith("\\"):
            continue
        start, end = pragma.span()
        directive = _statement(text, start, end, clauses, words)
        yield directive or _Directive(start, clauses, ("barrier", *words), end, 0, 0, end)


def _statement(text: str, start: int, body: int, clauses: str, words: tuple[str, ...]) -> _Directive | None:
    """Returns a directive with its statement, a block or nested loops with blocks as bodies; None for
    others.
    """
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
    """Returns the position of the bracket that closes the one at `opening`, or -1."""
    depth = 0
    for bracket in re.compile(r"[(){}\[\]]").finditer(text, opening):
        depth += 1 if bracket.group() in "({[" else -1
        if depth == 0:
            return bracket.start()
    return -1
