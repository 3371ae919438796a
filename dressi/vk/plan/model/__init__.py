"""Device models: what work costs on a device, in physical units."""
