"""Kernelized nonlinear regulators: dynamics learned by regression."""
