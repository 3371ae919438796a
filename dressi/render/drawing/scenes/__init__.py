"""Scenes as images: ``node`` the lists of one node, ``groups`` those of nodes that are ``alike``, ``joined`` those of all nodes, and
``recipe`` how a picture is made of them."""
