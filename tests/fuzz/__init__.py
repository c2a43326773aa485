"""Fuzzers: random models against other runtimes, and damaged texts and files against "one line or an answer".

Every case is made from its kind and its number alone, so a finding is a pair of these. `python -m fuzz` runs them as
long as one likes, and test_fuzz.py for some seconds.
"""
