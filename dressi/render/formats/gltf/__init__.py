"""glTF files in: ``document`` is the file and its tree of nodes, ``primitives`` its triangles and lines,
``material`` what covers them; ``scene`` puts them together, with morph targets, skins, cameras and lights."""
