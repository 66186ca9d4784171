"""Latent states decoded from rich observations."""
