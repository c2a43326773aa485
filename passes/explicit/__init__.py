"""linalg -> numc: every FMA operator and every rounding is written into the IR."""
