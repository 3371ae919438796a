"""Packing: Functions into SubStages, SubStages into Stages (sections 3.3.3, A.8 and A.9)."""
