"""numc, the arithmetic compiler."""
