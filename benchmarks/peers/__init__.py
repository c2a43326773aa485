"""What numc is compared with."""
