"""What is measured, one section of the results in each file."""
