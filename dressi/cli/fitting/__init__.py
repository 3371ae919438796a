"""`dressi fit`: the request and its checks, the run, what is shown of it."""
