"""The definition of numc's arithmetic: formats, groups, FMA operators, their texts, and who computes in which."""
