"""Hardware for the cost model: areas of operators, machines as data, the cycles that their units take."""
