"""`solve`, for known models: options, search, result, and price curves."""
