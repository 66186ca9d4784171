"""Finite models learned by counting transitions."""
