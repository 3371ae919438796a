"""The linear system of a nonlinear step: its diagonal, preconditioners, and what solves it."""
