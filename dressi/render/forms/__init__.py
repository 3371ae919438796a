"""The estimators of ``hard_soft_ras``, one module each (face, outer, contour, antialias), and what they are made of.

A new one takes a ``DrawnMesh``, gives what is like a ``Silhouette``, and is named in ``hard_soft_ras.FORMS``. ``passings`` is what
passes between the centres of neighbouring pixels, for the antialias form and for layers.
"""
