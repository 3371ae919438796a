"""The estimators of ``hard_soft_ras``, one module each (``face``, ``outer``, and ``pairs`` for edges), and what they are made of.

A new one takes a ``DrawnMesh``, gives what is like a ``Silhouette``, and is named in ``hard_soft_ras.FORMS``.
"""
