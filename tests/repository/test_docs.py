"""The guide is correct: its programs verify, its code runs, its quotations exist, and its links resolve."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

import wrapper_ir
from tests.common.torch_versions import since
from tools.docs.pages import PAGES, is_stale
from wrapper_ir.errors import VerificationError
from wrapper_ir_passes.table import PASSES
from wrapper_ir_tools.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
GUIDE = sorted(p for p in (ROOT / "docs").glob("*.md") if f"docs/{p.name}" not in PAGES)
READMES = [ROOT / "README.md", *sorted((ROOT / "packages").glob("*/README.md"))]
RUN_THE_SAMPLE = ("fx_converter", "py_wrapper")
LISTS = [ROOT / "docs" / folder / "README.md" for folder in ("adr", "benchmarks")]
LINKED = sorted(
    {*READMES, *(ROOT / "docs").rglob("*.md"), ROOT / "CHANGELOG.md", *ROOT.glob("packages/*/CHANGELOG.md")}
)
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the info string, the text, and the line of its start."""

    page: Path
    language: str
    options: dict[str, str]
    text: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    source = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(source):
        language, *rest = match["info"].split() or [""]
        options = dict(word.split("=", 1) for word in rest)
        yield Block(page, language, options, match["text"], source[: match.start()].count("\n") + 1)


def all_blocks(language: str) -> list[Block]:
    return [block for page in GUIDE for block in blocks(page) if block.language == language]


# --- generated pages ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_generated_pages_are_up_to_date(page: str) -> None:
    assert not is_stale(page), "run `make docs`"


# --- programs ----------------------------------------------------------------------------------------------------


# The page on syntax shows programs that need not be valid; test_text_docs.py parses them.
PROGRAMS = [block for block in all_blocks("wir") if block.page.name != "text-form.md"]


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda b: b.place)
def test_programs_parse_verify_and_print(block: Block) -> None:
    program = wrapper_ir.parse_program(block.text)
    assert wrapper_ir.print_program(program) == block.text
    code = block.options.get("refused")
    if code is None:
        wrapper_ir.verify(program)
    else:
        with pytest.raises(VerificationError) as caught:
            wrapper_ir.verify(program)
        assert caught.value.code == code


# --- code --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("page", [*GUIDE, *READMES], ids=lambda p: f"{p.parent.name}/{p.name}")
def test_python_blocks_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page has one namespace.

    A `text` block after a Python block is its output; `wir` commands run on the page's files.
    """
    if page.parent.name in RUN_THE_SAMPLE and not since("2.13"):
        pytest.skip(
            "the sample's kernels are written for the headers of torch 2.13, as the refusal CPP102 says"
        )
    monkeypatch.chdir(tmp_path)
    if page in READMES:  # which use files that their reader has
        for name in ("model.wir", "old.wir", "new.wir"):
            shutil.copy(ROOT / "tests" / "data" / "sample.wir", name)
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "tiny_emitter"))
    scope: dict[str, object] = {"__name__": f"docs_{page.stem}"}
    printed = ""
    for block in blocks(page):
        if block.language == "python" and "file" not in block.options:
            out = io.StringIO()
            # the padding makes line numbers of tracebacks those of the page
            code = compile("\n" * block.line + block.text, str(page), "exec")
            with contextlib.redirect_stdout(out):
                exec(code, scope)
            printed = out.getvalue()
        elif block.language == "text" and "output" in block.options:
            assert printed.rstrip() == block.text.rstrip(), f"{block.place}: not what the block before prints"
            printed = ""
        elif block.language == "sh" and page in READMES:
            for line in re.findall("^wir (.*)", block.text, re.MULTILINE):
                done = CliRunner().invoke(main, shlex.split(line, comments=True))
                wanted = (
                    2 if line.startswith("compile ") else 0
                )  # C++ kernels are compiled when they are loaded
                assert done.exit_code == wanted, f"{block.place}: wir {line}: {done.output}"


@pytest.mark.parametrize(
    "block", [b for b in all_blocks("python") if "file" in b.options], ids=lambda b: b.place
)
def test_quoted_code_is_in_its_file(block: Block) -> None:
    source = (ROOT / block.options["file"]).read_text(encoding="utf-8")
    assert block.text in source, f"{block.place} differs from {block.options['file']}"


def test_there_is_something_to_run() -> None:
    """The extraction above finds the blocks that it is for."""
    assert len(PROGRAMS) >= 6
    assert len(all_blocks("python")) >= 15
    assert any("refused" in b.options for b in PROGRAMS)
    assert any("output" in b.options for b in all_blocks("text"))


# --- words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", LINKED, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(linked), f"{page.name}: {target}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", [*GUIDE, *READMES], ids=lambda p: f"{p.parent.name}/{p.name}")
def test_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    known = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    for target in re.findall(r"`?\bmake ([a-z]+)\b`", page.read_text(encoding="utf-8")):
        assert target in known, f"{page.name}: make {target}"


@pytest.mark.parametrize("page", [*GUIDE, *READMES], ids=lambda p: f"{p.parent.name}/{p.name}")
def test_commands_of_wir_exist(page: Path) -> None:
    for name in re.findall(r"(?:^|`)wir ([a-z]+) [^ ]", page.read_text(encoding="utf-8"), re.MULTILINE):
        assert name in main.commands, f"{page.name}: wir {name}"


@pytest.mark.parametrize("page", [*GUIDE, *READMES], ids=lambda p: f"{p.parent.name}/{p.name}")
def test_files_that_are_named_exist(page: Path) -> None:
    """Paths in backticks that start with a folder of the repository."""
    for path in re.findall(
        r"`((?:packages|tests|tools|docs|examples)/[\w./-]+)`", page.read_text(encoding="utf-8")
    ):
        assert (ROOT / path).exists(), f"{page.name}: {path}"


@pytest.mark.parametrize("page", ["fx.md", "triton-runtime.md"])
def test_tests_that_are_named_exist(page: str) -> None:
    """The tables of guarantees name tests, with or without their files, and cases of tests."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    named = re.findall(r"`(?:([\w/]+\.py)::)?(?:Test\w+::)?(test_\w+)`", text)
    files = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("packages/*/tests/**/test_*.py")]
    defined = {
        (f.relative_to(ROOT).as_posix(), name)
        for f in files
        for name in re.findall(r"def (test_\w+)", f.read_text("utf-8"))
    }
    assert len(named) > 40
    missing = [
        (file, test)
        for file, test in named
        if not any(test == name and path.endswith(file) for path, name in defined)
    ]
    assert missing == []


def layers() -> dict[str, int]:
    """Module or folder of the core -> its line in the table of `docs/architecture.md`."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text[text.index("## Layers of the core") : text.index("## Entry points")]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("| ")][2:]
    return {
        name.rstrip("/").removesuffix(".py"): i
        for i, row in enumerate(rows)
        for name in re.findall(r"`([\w./]+)`", row)
    }


def test_the_core_is_layered_as_written() -> None:
    """Imports at the top of a module go to the same line of the table or to one above it."""
    order = layers()
    core = ROOT / "packages" / "wrapper_ir" / "src" / "wrapper_ir"
    units = {p.stem if p.is_file() else p.name for p in core.iterdir() if p.suffix in ("", ".py")}
    assert set(order) == {u for u in units if not u.startswith("__")} - {"schema"}
    for path in core.rglob("*.py"):
        unit = path.relative_to(core).parts[0].removesuffix(".py")
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if unit != "__init__" and isinstance(statement, ast.ImportFrom):
                # `from wrapper_ir import ops` names a module of the table, `from wrapper_ir import verify`
                # one of its names
                named = [f"{statement.module}.{alias.name}".split(".") for alias in statement.names]
                for used in (parts[1] for parts in named if parts[0] == "wrapper_ir" and parts[1] in order):
                    assert order[used] <= order[unit], f"{path}:{statement.lineno}"


def test_the_table_of_passes_names_every_file() -> None:
    """Files of passes are in the second column, the others of their folder in the third."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text[text.index("## Families of passes") : text.index("## Flow of one fact")]
    rows = re.findall(r"^\| `(\w+)/` \| (.*?) \| (.*?) \|$", section, re.MULTILINE)
    listed = {folder: [re.findall(r"`(\w+\.py)`", cell) for cell in cells] for folder, *cells in rows}
    defined: dict[str, set[str]] = {}
    for cls in PASSES.values():
        *_, folder, name = cls.__module__.split(".")
        defined.setdefault(folder, set()).add(f"{name}.py")
    package = ROOT / "packages" / "wrapper_ir_passes" / "src" / "wrapper_ir_passes"
    for folder, (passes, others) in listed.items():
        assert set(passes) == defined.get(folder, set())
        assert sorted([*passes, *others]) == sorted(p.name for p in (package / folder).glob("*.py"))
    assert set(listed) >= set(defined)


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in index, f"no row for {page.name}"


@pytest.mark.parametrize("page", LISTS, ids=lambda p: p.parent.name)
def test_lists_of_pages_name_every_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for listed in page.parent.glob("*.md"):
        title = listed.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        assert listed == page or f"- [{title}]({listed.name})" in text, f"no line for {listed.name}"


def test_the_table_of_proofs_names_every_test_file() -> None:
    """By file or by folder; and each row's marker is that of its command."""
    text = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| (\w+) \| `make (\w+) TESTS=([\w./]+)` \|", text)
    assert rows
    assert all(run_by == command for run_by, command, _ in rows)
    named = [ROOT / path for _, _, path in rows]
    files = [*ROOT.glob("packages/*/tests/**/test_*.py"), *ROOT.glob("tests/**/test_*.py")]
    missing = [f for f in files if not any(f == n or n in f.parents for n in named)]
    assert [str(f.relative_to(ROOT)) for f in missing] == []
    marked = re.compile(r"^(@|pytestmark = )pytest\.mark\.conformance", re.MULTILINE)
    conformance = {f for f in files if marked.search(f.read_text(encoding="utf-8"))}
    long = [ROOT / path for _, command, path in rows if command == "conformance"]
    assert [f.name for f in conformance if not any(f == n or n in f.parents for n in long)] == []
