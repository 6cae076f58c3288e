"""From a model and its ranges to the engine that runs: graphs, builds on this device, a measured search, proof."""
