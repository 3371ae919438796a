"""`dressi bench all`: every case in one command, one file a unit, and the page of all of them."""
