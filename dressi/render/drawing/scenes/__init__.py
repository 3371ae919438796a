"""Scenes as images. ``images`` makes images of the arguments of ``render``. ``node`` makes the lists of one node, ``groups``
those of nodes whose surfaces are alike, ``joined`` those of all nodes. ``recipe`` says how a picture is made of them.
"""
