"""Optimizers, the parts they are composed of, and schedules. ``dressi.optim`` lists them."""
