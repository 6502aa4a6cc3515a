"""Additions of the site to the pages of `docs/`: other pages, links between all of them, folders in the
navigation.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.site.pages import Site, expand, list_pages

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "README.md": "readme.md",
    "docs/index.md": "index.md",
    "docs/adr/0001-first.md": "adr/0001-first.md",
    "docs/adr/README.md": "adr/README.md",
    "packages/p/README.md": "packages/p.md",
}
HERE = Site(PAGES, "")
PUBLISHED = Site(PAGES, "https://example.com/p/q")


def test_every_package_has_a_page() -> None:
    pages = list_pages(ROOT)
    for folder in (ROOT / "packages").iterdir():
        assert pages[f"packages/{folder.name}/README.md"] == f"packages/{folder.name}.md"
        assert pages[f"packages/{folder.name}/CHANGELOG.md"] == f"changelogs/{folder.name}.md"
        api = (ROOT / "docs" / "api" / f"{folder.name}.md").read_text("utf-8")
        assert f"::: {folder.name}\n" in api
    assert pages["docs/index.md"] == "index.md"


@pytest.mark.parametrize(
    ("source", "link", "written"),
    [
        ("docs/index.md", "[a](../README.md)", "[a](readme.md)"),
        ("docs/adr/0001-first.md", "[a](../index.md#b)", "[a](../index.md#b)"),
        ("packages/p/README.md", "[a](../../docs/adr/0001-first.md)", "[a](../adr/0001-first.md)"),
        ("README.md", "[`p`](packages/p/README.md)", "[`p`](packages/p.md)"),
        ("README.md", "[a](#b) [c](https://example.com/d.md)", "[a](#b) [c](https://example.com/d.md)"),
        ("README.md", "[the `x` file](x.py) and", "the `x` file and"),
        (
            "README.md",
            "[a](docs/index.md)\n```\n[a](docs/index.md)\n```\n",
            "[a](index.md)\n```\n[a](docs/index.md)\n```\n",
        ),
    ],
)
def test_links(source: str, link: str, written: str) -> None:
    assert HERE.for_site(link, source) == written


def test_blocks_of_code_say_their_language_alone() -> None:
    text = "a\n\n```text output=1\n[a](docs/index.md)\n```\n\n```\nb\n```\n"
    assert HERE.for_site(text, "README.md") == text.replace(" output=1", "")


def test_files_are_linked_where_they_are_published() -> None:
    assert (
        PUBLISHED.for_site("[a](../x.py)", "docs/index.md") == "[a](https://example.com/p/q/blob/main/x.py)"
    )


def test_a_link_out_of_the_repository_is_refused() -> None:
    with pytest.raises(ValueError, match="leads out of the repository"):
        HERE.for_site("[a](../../b.md)", "docs/index.md")


def test_folders_of_the_navigation() -> None:
    nav = ["index.md", {"Decisions": "adr/*"}, {"More": [{"P": "packages/*"}]}]
    assert expand(nav, PAGES) == [
        "index.md",
        {"Decisions": ["adr/README.md", "adr/0001-first.md"]},
        {"More": [{"P": ["packages/p.md"]}]},
    ]
    with pytest.raises(ValueError, match="no page in that folder"):
        expand("nothing/*", PAGES)
