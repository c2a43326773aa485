"""The steps of one multiply-add, a file each: state, step, guard and finish."""
