"""Stack depths of two sides: mean, quantiles and largest gap.

quantile_shift    differences of quantiles
largest_gap       the largest difference of the cumulative distributions
depth_comparison  all of them
"""
