"""Tables, plots and pages of the results."""
