"""Windows of toolkits, a module each, imported when one is opened."""
