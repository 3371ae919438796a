"""Binary glTF files that are written: ``material`` and ``rigs`` add entries to a ``document``; ``mesh`` and ``scene`` fill one."""
