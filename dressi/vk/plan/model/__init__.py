"""Device models: what work costs on a device, in physical units, and what a plan is predicted to take there."""
