"""The loop of the three players: over a known model, and over an environment."""
