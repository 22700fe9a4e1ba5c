"""What tests and simulations of schedules need in place of the real thing."""
