"""Markdown pages of the documentation: their blocks of code, links and anchors."""

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
README = REPOSITORY / "README.md"
DOCS = REPOSITORY / "dressi" / "docs"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """One fenced block.  line: of its first line of code, from 1.  heading: the last one above it.  printed: the text of
    the block ``text`` that follows it directly, None without one."""

    language: str
    code: str
    heading: str
    line: int
    printed: str | None = None


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    made = []
    for match, after in zip(found, [*found[1:], None]):
        headings = HEADING.findall(FENCE.sub("", text[: match.start()]))
        follows = after is not None and after[1] == "text" and not text[match.end() : after.start()].strip()
        made.append(
            Block(
                match[1],
                match[2],
                headings[-1] if headings else "",
                text[: match.start(2)].count("\n") + 1,
                after[2] if follows and after is not None else None,
            )
        )
    return made


def run_block(page: Path, block: Block, names: dict) -> None:
    """Run a block of Python among these names. Tracebacks name the page and the line on it."""
    code = "\n" * (block.line - 1) + block.code
    exec(compile(code, str(page), "exec", dont_inherit=True), names)


def outside_fences(page: Path) -> str:
    """The text of a page without its fenced blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What links to headings of a page are called: lower case, spaces to hyphens, without punctuation."""
    headings = HEADING.findall(outside_fences(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    """Targets of the links and pictures of a page, those in fenced blocks left out."""
    return LINK.findall(outside_fences(page))


def commands(page: Path) -> list[str]:
    """Each call of ``dressi`` on a page: lines of shell blocks without their comments, and inline code."""
    lines = [
        line.partition(" #")[0].strip()
        for block in blocks(page)
        if block.language in ("", "bash")
        for line in block.code.replace("\\\n", " ").splitlines()
    ]
    lines += [code.replace("\\|", "|") for code in re.findall(r"`([^`\n]+)`", outside_fences(page))]
    return [
        f"dressi {rest}".strip()
        for line in lines
        for rest in re.findall(r"^(?:\S*/)?dressi(?: (.*))?$", line)
    ]
