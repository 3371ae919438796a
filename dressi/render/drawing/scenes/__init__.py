"""Scenes as images. ``images`` makes images of the arguments of ``render``. ``node`` makes the lists of one
node, ``groups`` those of nodes whose surfaces are alike. ``joined`` makes those of all nodes, and says how a
picture is made of them.
"""
