"""Learning rates, optimisers and the moving average of weights."""
