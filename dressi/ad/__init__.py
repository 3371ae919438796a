"""What a computation is: Variables, Functions, their meaning and their derivatives. No device in here."""

from . import functional as functional  # first: the families of Functions import it while it is loading
