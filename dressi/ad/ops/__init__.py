"""The operations, by family. A file holds the classes of a family, their builders, and the names that ``F``
shows in ``__all__``. A new operation needs its class and builder there, and an example in the tests."""
