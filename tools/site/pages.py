"""Pages of the site from other folders of the repository, and links between all of them.

On the site a page may have another path than in the repository (`packages/py_wrapper/README.md` is
`packages/py_wrapper.md`), so links are resolved in the repository and then rewritten for the site. Other
files, such as sources, link to the published repository, or are plain text without one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(?P<language>[\w-]*)[^\n`]*(?P<text>\n.*?^```)$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[(?P<text>[^\]\[]*(?:`[^`]*`)?[^\]\[]*)\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Site:
    """`pages`: site path by repository path, for every page. `repository`: the published URL, or ""."""

    pages: Mapping[str, str]
    repository: str

    def for_site(self, text: str, source: str) -> str:
        """Returns the Markdown of the page `source` (a repository path), with links to pages of the site, and
        blocks of code with only their language.

        Raises ValueError for a link out of the repository.
        """
        parts: list[str] = []
        at = 0
        for fence in _FENCE.finditer(text):
            # Code is not Markdown. Options after its language are for tests, not for mkdocs.
            code = f"```{fence['language']}{fence['text']}"
            parts += [self._relinked(text[at : fence.start()], source), code]
            at = fence.end()
        return "".join([*parts, self._relinked(text[at:], source)])

    def _relinked(self, text: str, source: str) -> str:
        return _LINK.sub(lambda link: self._link(link["text"], link["target"], source), text)

    def _link(self, text: str, target: str, source: str) -> str:
        if re.match(r"\w+:|#", target):
            return f"[{text}]({target})"
        path, mark, anchor = target.partition("#")
        linked = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if linked.startswith(".."):
            raise ValueError(f"{source}: {target} leads out of the repository")
        page = self.pages.get(linked)
        if page is not None:
            here = posixpath.dirname(self.pages[source])
            return f"[{text}]({posixpath.relpath(page, here or '.')}{mark}{anchor})"
        return f"[{text}]({self.repository}/blob/main/{linked}{mark}{anchor})" if self.repository else text


def extra_pages(root: Path) -> dict[str, str]:
    """Site path by repository path, of the pages outside `docs/`."""
    pages = {"README.md": "readme.md", "CHANGELOG.md": "changelogs/index.md"}
    for folder in sorted(p.parent.name for p in root.glob("packages/*/pyproject.toml")):
        pages[f"packages/{folder}/README.md"] = f"packages/{folder}.md"
        pages[f"packages/{folder}/CHANGELOG.md"] = f"changelogs/{folder}.md"
    return pages


def list_pages(root: Path) -> dict[str, str]:
    """Site path by repository path, of all pages."""
    docs = root / "docs"
    pages = {
        f"docs/{p.relative_to(docs).as_posix()}": p.relative_to(docs).as_posix() for p in docs.rglob("*.md")
    }
    pages |= extra_pages(root)
    return pages


def expand(nav: object, pages: Mapping[str, str]) -> object:
    """The navigation with each `folder/*` replaced by the site's pages in that folder, its index first."""
    match nav:
        case list():
            return [expand(item, pages) for item in nav]
        case dict():
            return {title: expand(item, pages) for title, item in nav.items()}
        case str() if nav.endswith("/*"):
            members = {page for page in pages.values() if posixpath.dirname(page) == nav.removesuffix("/*")}
            if not members:
                raise ValueError(f"{nav}: no page in that folder")
            return sorted(members, key=lambda page: (not page.endswith(("/index.md", "/README.md")), page))
        case _:
            return nav
