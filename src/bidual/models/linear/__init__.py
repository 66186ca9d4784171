"""Linear MDPs: known features, unknown measures."""
