"""numc -> tensors: fusion, folding and phases while values are tensors; the arithmetic stays as it was written."""
