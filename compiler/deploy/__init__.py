"""Programs as other files than numc's own: shared objects with headers of C."""
