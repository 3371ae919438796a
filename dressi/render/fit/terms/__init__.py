"""The terms of the loss of the shape phase, one module each. A new one is a module here and a row of ``FitOptions``."""
