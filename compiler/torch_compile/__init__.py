"""Training with torch.compile: forward, backward and optimizer graphs as programs of numc."""
