"""From a set of faces to the range of every tensor of a network, which INT8 needs."""
