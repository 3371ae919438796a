"""What a fit keeps on disk, and how it shares a folder: locks, files that are whole or not there, checkpoints.

``archive`` reads and writes arrays in files that nobody vouches for; ``checkpoint`` says what a checkpoint may hold;
``keeper`` writes it while a fit runs; ``folder`` locks the folder and removes what killed fits have left in it.
"""

from .checkpoint import NAME, Checkpoint, task_key
from .folder import cannot_write, check_folder, locked, temporary_prefix
from .keeper import Keeper

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
