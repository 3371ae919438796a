"""The documentation as Markdown, beside this file; ``index.md`` first. ``python -m dressi.docs.reference
OUT`` writes the reference of all public names."""
