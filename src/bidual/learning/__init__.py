"""`learn`, for unknown models: set-up, the state of a run, bounds, results, stored runs."""
