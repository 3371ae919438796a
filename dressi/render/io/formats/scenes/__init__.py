"""glTF scenes in and out: ``nodes`` the tree, ``primitives`` their triangles, ``rigs`` morph targets and skins, ``stage`` cameras
and lights; ``load`` and ``save`` put them together, ``document`` and ``rig_entries`` what is written."""
