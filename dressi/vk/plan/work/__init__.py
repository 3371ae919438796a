"""What SubStages are on the device."""
