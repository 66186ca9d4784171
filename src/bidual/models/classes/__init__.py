"""Low-rank models learned from finite classes of candidate factors."""
