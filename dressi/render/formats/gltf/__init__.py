"""glTF files that are read. ``document`` is the file and its tree of nodes, ``primitives`` its triangles and
lines, ``material`` what covers them, ``rigs`` morph targets and skins. ``scene`` puts them together, with
cameras and lights."""
