"""Bounds from episodes: what averages say about expectations, each with its theorem and its assumptions."""
