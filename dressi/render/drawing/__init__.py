"""Pictures of meshes: ``render`` and its parts, and the unlit pictures for targets and scores of fits."""
