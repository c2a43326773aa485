"""torch.compile(..., backend="numc"): forward, backward and optimizer graphs."""
