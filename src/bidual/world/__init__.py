"""The world of a policy: finite models, policies, environments."""
