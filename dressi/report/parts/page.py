"""The page around the parts: one HTML file with everything inside, which asks no server for anything."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any

from ...config import dressi_version
from .markup import Markup, element
from .model import Model

MOST_BYTES = 10_000_000
"""Of a page."""
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:;"
    " connect-src data: blob:; base-uri 'none'; form-action 'none'"
)
"""A browser that opens the page makes no request, whatever a model or a text in it says."""
THREE = "three.min.js"
NOTICE = "3D view: three.js r187, MIT licence, © 2010-2026 three.js authors."


@dataclass(frozen=True)
class Page:
    """title: of the window and the head.  lead: a line under it.  sections: the content.  model: what the 3D
    view of the sections shows, None where there is none."""

    title: str
    lead: Any
    sections: list[Markup]
    model: Model | None = None

    def html(self) -> bytes:
        """The file."""
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=POLICY),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("meta", name="generator", content=f"dressi {dressi_version()}"),
            element("title", self.title),
            element("style", Markup(asset("page.css"))),
        )
        when = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
        made = f"Made by dressi {dressi_version()} on {when}."
        scripts = []
        if self.model is not None:
            made += f" {NOTICE}"
            text = Markup(base64.b64encode(self.model.data).decode())
            scripts.append(element("script", text, type="application/octet-stream", id="model"))
            scripts += [element("script", Markup(asset(name))) for name in (THREE, "viewer.js")]
        brand = element("p", "dressi", class_="brand")
        body = element(
            "body",
            element("header", brand, element("h1", self.title), element("p", self.lead)),
            element("main", self.sections),
            element("footer", element("p", made)),
            scripts,
            element("script", Markup(asset("page.js"))),
        )
        return f"<!doctype html>\n{element('html', head, body, lang='en')}\n".encode()


def asset(name: str) -> str:
    """The text of a file that comes with the package."""
    return files("dressi.report").joinpath("assets", name).read_text(encoding="utf-8")
