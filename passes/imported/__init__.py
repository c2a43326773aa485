"""linalg: the model as it was imported, in structured operations of one kind, with checks of what a run brings."""
