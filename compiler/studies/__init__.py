"""What is found out with compiled programs: comparisons, differences, costs."""
