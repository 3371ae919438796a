"""Pictures of meshes: ``render`` and what it is made of, and the plain pictures that fits are judged by."""
