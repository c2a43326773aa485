"""The picture of a model with its arithmetic: layers and what flows between them, on one page."""
