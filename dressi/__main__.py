"""``python -m dressi``: the command line without its script."""

from dressi.cli import main

main()
