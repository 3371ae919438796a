"""From graphs to graphs: derivatives, rewrites and simplification."""
