"""The operations by name: their options, what they take and give, and their graphs."""
