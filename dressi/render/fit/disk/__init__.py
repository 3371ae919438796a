"""The files of a fit: checkpoints, locks on the output folder, atomic replacement.

``checkpoint`` defines a checkpoint, writes it while a fit runs, and reads it as an untrusted file of arrays.
``folder`` locks the folder and removes unfinished files of killed fits.
"""

from .checkpoint import NAME, Checkpoint, Keeper, task_key
from .folder import cannot_write, check_folder, locked, temporary_prefix

__all__ = [
    "NAME", "Checkpoint", "Keeper", "cannot_write", "check_folder", "locked", "task_key", "temporary_prefix",
]  # fmt: skip
