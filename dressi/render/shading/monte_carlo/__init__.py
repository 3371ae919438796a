"""Direct light of environment maps by Monte-Carlo integration: the reference for filtered lookups."""
