"""The options of a fit: ``option`` is a row of a table, ``fit_options`` the table, ``schedule`` the rounds
that follow."""

from .fit_options import STARTS, STEPS, FitOptions

__all__ = ["STARTS", "STEPS", "FitOptions"]
