"""The text of shaders: declarations, statements and names that all kinds of work share."""
