"""Studies of models with compiled programs: comparisons, differences, costs, explanations."""
