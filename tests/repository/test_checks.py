"""The repository's own checks find their targets, and ignore other code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.checks.circles import find_circles
from tools.checks.faces import find_inner_imports
from tools.checks.figures import figures_of, find_raised, lowered, package_figures
from tools.checks.finding import Check, Finding, Source
from tools.checks.forbidden_words import find_pickle, find_words
from tools.checks.helpers import find_test_imports
from tools.checks.lengths import FILE_LIMIT, FUNCTION_LIMIT, find_long
from tools.checks.packages import find_incomplete_packages

PACKAGE = "packages/p/src/p/x.py"


def run(check: Check, text: str, path: str = PACKAGE) -> list[Finding]:
    return list(check(Source(path, text)))


# Joined at run time, so that the check over this file stays quiet.
@pytest.mark.parametrize(
    "words", [("cd /wo", "rk/main"), ("see iss", "ue 12"), ("https://py", "pi.org/simple")]
)
def test_forbidden_words_are_found(words: tuple[str, str]) -> None:
    [finding] = run(find_words, "first line\n" + "".join(words), "README.md")
    assert finding.line == 2
    assert str(finding).startswith("README.md:2: ")


@pytest.mark.parametrize("text", ["a frame/work/item", "the issues of aliasing", "a network"])
def test_other_words_are_not(text: str) -> None:
    assert run(find_words, text, "README.md") == []


@pytest.mark.parametrize(
    "code",
    ["import pickle", "from pickle import loads", "import cloudpickle as c", "def f():\n    torch.load('x')"],
)
def test_pickle_is_found_in_packages(code: str) -> None:
    assert len(run(find_pickle, code)) == 1
    assert run(find_pickle, code, "tests/test_x.py") == []


def test_pickle_in_a_comment_is_fine() -> None:
    assert run(find_pickle, "# import pickle\nx = 'torch.load'\n") == []


@pytest.mark.parametrize(
    "code",
    [
        "from tests.fx.test_fx_other import graph",
        "from packages.p.tests.test_other import *",
        "from tests.fx import test_fx_other",
        "def f():\n    import tests.fx.test_fx_other as t",
    ],
)
def test_imports_from_test_modules_are_found(code: str) -> None:
    assert len(run(find_test_imports, code, "tests/fx/test_fx_one.py")) == 1


@pytest.mark.parametrize(
    "code", ["from tests.fx.fx_cases import stored", "import tests.fx.test_fx_one as own"]
)
def test_imports_of_helpers_are_not(code: str) -> None:
    assert run(find_test_imports, code, "tests/fx/test_fx_one.py") == []


@pytest.mark.parametrize(
    ("path", "code", "count"),
    [
        ("packages/p/src/p/a.py", "from wrapper_ir.ir.ops import Launch", 1),
        ("tests/a.py", "def f():\n    from wrapper_ir.ir.values import Value", 1),
        ("tests/a.py", "from wrapper_ir.ir.ops.call_effects import _TAG_CLASS", 0),
        ("tests/a.py", "from wrapper_ir import ir", 0),
        ("packages/wrapper_ir/src/wrapper_ir/ir/program.py", "from wrapper_ir.ir.values import Value", 0),
    ],
)
def test_imports_past_the_face_of_the_ir_are_found(path: str, code: str, count: int) -> None:
    assert len(run(find_inner_imports, code, path)) == count


def test_long_files_and_functions_are_found() -> None:
    long_function = "def f():\n" + "    x = 1\n" * FUNCTION_LIMIT
    assert [f.message for f in run(find_long, long_function)] == ["`f`: 61 lines, more than 60"]
    assert run(find_long, "def f():\n" + "    x = 1\n" * (FUNCTION_LIMIT - 1)) == []
    assert len(run(find_long, "x = 1\n" * (FILE_LIMIT + 1))) == 1
    assert run(find_long, "x = 1\n" * FILE_LIMIT) == []


@pytest.mark.parametrize("path", ["packages/p/src/p/x.cpp", "packages/p/src/p/x.h", "packages/p/src/p/x.js"])
def test_long_files_of_other_languages_are_found(path: str) -> None:
    assert len(run(find_long, "int x;\n" * (FILE_LIMIT + 1), path)) == 1
    assert run(find_long, "int x;\n" * FILE_LIMIT, path) == []


@pytest.mark.parametrize("path", ["packages/p/tests/golden/x.cpp", "packages/p/src/p/vendor/x.js", "x.css"])
def test_long_emitted_and_third_party_files_are_not(path: str) -> None:
    assert run(find_long, "int x;\n" * (FILE_LIMIT + 1), path) == []


def make_package(root: Path, urls: str = "") -> Path:
    (root / "LICENSE").write_text("licence")
    (root / "CHANGELOG.md").write_text("# Changelogs\n")
    (root / "pyproject.toml").write_text('[tool.release]\nrepository = ""\n')
    package = root / "packages" / "p"
    package.mkdir(parents=True)
    (package / "pyproject.toml").write_text(f'[project]\nname = "p-q"\nversion = "0.1.0"\n{urls}')
    return package


def test_an_incomplete_package_is_found(tmp_path: Path) -> None:
    make_package(tmp_path, '[project.urls]\nHomepage = "https://nobody.example/p"\n')
    assert [str(finding) for finding in find_incomplete_packages(tmp_path)] == [
        "packages/p/src/p:1: no py.typed",
        "packages/p/LICENSE:1: not the same as the repository's LICENSE",
        "packages/p/README.md:1: missing",
        "packages/p/pyproject.toml:1: other URLs than `python -m tools.release publish-at` writes",
        "packages/p/CHANGELOG.md:1: missing",
        "CHANGELOG.md:1: no link to packages/p/CHANGELOG.md",
    ]


def test_a_changelog_of_another_form_is_found(tmp_path: Path) -> None:
    (make_package(tmp_path) / "CHANGELOG.md").write_text("# Changelog of p-q\n\n## 0.1.0\n")
    found = [f for f in find_incomplete_packages(tmp_path) if f.path == "packages/p/CHANGELOG.md"]
    assert [finding.line for finding in found] == [3, 1]


def module(name: str, text: str) -> Source:
    return Source(f"packages/one/src/one/{name}.py", text)


class TestCircles:
    ONE = module("a", "import one.b\n")
    TWO = (ONE, module("b", "def f():\n    from one.c import x\n"), module("c", "x = 1\n"))
    CLOSED = (*TWO[:2], module("c", "if TYPE_CHECKING:\n    from one import a\n"))

    def test_no_circle(self) -> None:
        assert list(find_circles(self.TWO)) == []

    def test_imports_for_types_and_in_functions_count(self) -> None:
        (found,) = find_circles(self.CLOSED)
        assert str(found) == "packages/one/src/one/a.py:1: imports go in a circle: one.a, one.b, one.c"

    def test_two_circles_that_meet_are_one(self) -> None:
        sources = (*self.CLOSED, module("d", "from one.a import f\n"))
        (found,) = find_circles((*sources, module("b", "import one.c, one.d\n")))
        assert found.message.endswith("one.a, one.b, one.c, one.d")

    def test_tests_and_other_files_are_not_looked_at(self) -> None:
        own = Source("packages/one/tests/a.py", "import one.b")
        assert list(find_circles((own, Source("tools/b.py", "import tools.b")))) == []


class TestFigures:
    """Counts of a package, held to limits that only fall."""

    TEXT = (
        'def f(found: Any) -> bool:\n    """What there is."""\n    # where there is none\n'
        "    return isinstance(found, int)\n"
    )

    def test_what_counts(self) -> None:
        figures = figures_of(self.TEXT)
        assert figures["question openings"] == 1
        assert figures["circumlocutions"] == 1
        assert figures["participle names"] == 1
        assert (figures["Any"], figures["isinstance"], figures["lines"]) == (1, 1, 2)

    def test_plain_code_counts_nothing(self) -> None:
        figures = figures_of(
            'def f(entry: object) -> str:\n    """Returns the name of an entry."""\n    return str(entry)\n'
        )
        assert {name for name, count in figures.items() if count} == {"lines"}

    def test_a_figure_above_its_limit_is_found(self) -> None:
        sources = [Source(PACKAGE, self.TEXT)]
        limits = {"p": {**package_figures(sources)["p"], "question openings": 0}}
        assert [str(f) for f in find_raised(sources, limits)] == [
            "packages/p/src:1: 1 question openings, more than 0"
        ]

    def test_a_package_beyond_its_lines_is_found(self) -> None:
        sources = [Source(PACKAGE, "x = 1\n" * 14_001)]
        assert [str(f) for f in find_raised(sources, {})] == [
            "packages/p/src:1: 1 lines of code too many, more than 0"
        ]

    def test_limits_only_fall(self) -> None:
        assert lowered({"p": {"long lines": 3, "Any": 1}}, {"p": {"long lines": 2, "Any": 4}}) == {
            "p": {"Any": 1, "long lines": 2}
        }
