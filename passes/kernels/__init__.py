"""The kernel generator: from the description of a contraction to MLIR text. No pass is imported here."""
