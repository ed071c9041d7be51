"""What mkdocs.yml asks of Python: pages and files of the site that lie outside docs/.

CONTRIBUTING.md, CHANGELOG.md and SECURITY.md become pages, and examples/ is copied, so that the
site is complete without the repository; links to them are turned accordingly.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, InclusionLevel

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
_NAMES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
}
_PAGES = {source: name for source, name in _NAMES.items() if (ROOT / source).exists()}
_LINK = re.compile(r"(\]\()((?:\.\./|docs/|[A-Z]+\.md)[^)#\s]*)([^)]*\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies outside docs/."""
    for source, name in _PAGES.items():
        content = (ROOT / source).read_text(encoding="utf-8")
        outside = InclusionLevel.NOT_IN_NAV  # it may be, but need not
        files.append(File.generated(config, name, content=content, inclusion=outside))
    for path in sorted((ROOT / "examples").glob("*.[pi]*")):  # scripts and notebooks
        files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that lead out of docs/, or from a file beside it into docs/."""
    folder = (ROOT / "docs" / page.file.src_uri).parent
    if page.file.src_uri in _PAGES.values():
        folder = ROOT
    return _LINK.sub(lambda found: found[1] + turned(found[2], folder, page) + found[3], markdown)


def turned(link: str, folder: Path, page: Page) -> str:
    """The place within the site of what a link leads to, seen from a page."""
    target = (folder / link).resolve()
    if target.is_relative_to(ROOT / "docs"):
        inside = target.relative_to(ROOT / "docs").as_posix()
    else:
        outside = target.relative_to(ROOT).as_posix()
        inside = _PAGES.get(outside, outside)
    return "../" * page.file.src_uri.count("/") + inside
