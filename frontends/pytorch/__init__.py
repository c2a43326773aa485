"""The front end for PyTorch modules and exported programs."""
