"""The page of a report: one file with its data, its scripts and its styles, and nothing outside."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path

from circlet.report.compare import Comparison
from circlet.report.data import Report

_ASSETS = Path(__file__).parent / "assets"
_LIBRARIES = ("d3", "dagre")
_SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)


def page(reports: Sequence[Report], comparison: Comparison | None = None) -> str:
    """The HTML of one report, or of two and what differs between them."""
    title = " and ".join(report.title for report in reports)
    parts = {
        "title": html.escape(title),
        "licences": _licences(),
        "style": _asset("report.css"),
        "libraries": "\n".join(_library(name) for name in _LIBRARIES),
        "modules": _script_text(json.dumps({"imports": _modules()})),
        "data": _script_text(data_text(reports, comparison)),
        "worker": _worker(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("template.html"))


def data_text(reports: Sequence[Report], comparison: Comparison | None = None) -> str:
    """What the page draws, as JSON."""
    found = {"reports": reports, "comparison": comparison}
    return json.dumps(found, default=vars, separators=(",", ":"), allow_nan=False)


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _library(name: str) -> str:
    return f'<script id="{name}">{_library_text(name)}</script>'


def _library_text(name: str) -> str:
    return _SOURCE_MAP.sub("", _asset(f"vendor/{name}.min.js"))


def _worker() -> str:
    """What lays graphs out beside the page: dagre, and the same module that the page has."""
    return _script_text(json.dumps(_asset("layout.js") + _asset("layout_worker.js")))


def _modules() -> dict[str, str]:
    """The page's modules as data URLs, by the names that they import each other by."""
    files = sorted(file for file in _ASSETS.glob("*.js") if file.stem != "layout_worker")
    return {f"report/{file.stem}": _data_url(file.read_bytes()) for file in files}


def _data_url(data: bytes) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(data).decode()}"


def _script_text(text: str) -> str:
    """JSON that ends no script element, whatever names it holds."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _licences() -> str:
    """The licences of the libraries in the page, which travel with it."""
    texts = [f"{name}\n{_asset(f'vendor/{name}.LICENSE')}" for name in _LIBRARIES]
    return "\n".join(texts).replace("--", "- -")
