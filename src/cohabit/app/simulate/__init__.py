"""Running scenarios: one, several side by side, a grid; and what they leave."""
