"""Hooks of mkdocs (`mkdocs.yml`): pages from outside `docs/`, links between all pages, folders in the
navigation.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.release.urls import read_repository
from tools.site.pages import Site, expand, extra_pages, list_pages


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expands `folder/*`, and adds links to the published repository."""
    root = _root(config)
    config.nav = expand(config.nav, list_pages(root))
    config.repo_url = read_repository(root) or None
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds READMEs and changelogs."""
    root = _root(config)
    for source, page in extra_pages(root).items():
        files.append(File.generated(config, page, content=(root / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Writes links and blocks of code for the site."""
    root = _root(config)
    pages = list_pages(root)
    site = Site(pages, read_repository(root))
    sources = {target: source for source, target in pages.items() if source.endswith(".md")}
    return site.for_site(markdown, sources[page.file.src_uri])


def _root(config: MkDocsConfig) -> Path:
    return Path(config.config_file_path).resolve().parent
