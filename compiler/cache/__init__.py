"""The cache of compiled programs, and hashes of the files that they are made of."""
