"""What is minimised, and what results are judged by: losses, regularizers, schedules, metrics."""
