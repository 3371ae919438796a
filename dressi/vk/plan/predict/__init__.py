"""What a step of a plan is predicted to take and to move on the device of a model."""
