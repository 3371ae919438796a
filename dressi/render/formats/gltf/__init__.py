"""glTF files that are read: ``document`` the file, ``nodes`` the tree, ``primitives`` their triangles, ``material`` what covers them,
``rigs`` morph targets and skins, ``stage`` cameras and lights, ``lines`` strands; ``mesh`` and ``scene`` put them together."""
