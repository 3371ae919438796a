"""What `dressi doctor` finds."""

from __future__ import annotations

from dataclasses import dataclass

OK, NOTE, PROBLEM = "ok", "note", "problem"


@dataclass(frozen=True)
class Finding:
    """level: OK, NOTE (dressi runs, but slower or without something), or PROBLEM (it does not run).  topic: of the same kind
    in every version, for programs.  text: one sentence, with the cure."""

    level: str
    topic: str
    text: str


def ok(topic: str, text: str) -> Finding:
    return Finding(OK, topic, text)


def note(topic: str, text: str) -> Finding:
    return Finding(NOTE, topic, text)


def problem(topic: str, text: str) -> Finding:
    return Finding(PROBLEM, topic, text)
