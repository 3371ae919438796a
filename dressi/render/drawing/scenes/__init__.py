"""Scenes as images: ``node`` the lists of one node, ``placing`` these in the world, ``joined`` those of all nodes together, and
``recipe`` how a picture is made of them."""
