"""From a model to a program file: compiling through the cache, here or in a worker; weights, calibration."""
