"""The files of a fit: checkpoints, locks on the output folder, atomic replacement.

``archive`` reads and writes untrusted files of arrays; ``checkpoint`` defines and validates a checkpoint; ``keeper`` writes
it while a fit runs; ``folder`` locks the folder and removes unfinished files of killed fits.
"""

from .checkpoint import NAME, Checkpoint, Keeper, task_key
from .folder import cannot_write, check_folder, locked, temporary_prefix

__all__ = [
    "NAME",
    "Checkpoint",
    "Keeper",
    "cannot_write",
    "check_folder",
    "locked",
    "task_key",
    "temporary_prefix",
]
