"""A fit that runs: its moments, what it shows of itself, and what a person may change meanwhile."""
