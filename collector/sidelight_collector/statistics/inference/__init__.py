"""Estimation and tests.

design            the two sides as matrices
residuals         contributions of pods and times to the error
autocorrelation   variation in time, observed by cosines
cluster_variance  variance of rates, clustered by pods and times
counting_noise    the least variance that a number of samples allows
rate_estimates    rates with their variances
effect_size       differences of rates, with intervals and tests
empirical_null    how far unchanged functions differ between two periods
fieller           intervals of ratios
shrinkage         of variances (empirical Bayes)
student_t         Student's t distribution
fdr               false-discovery rate
sample_shares     shares of samples
power             sample size that detects a change
"""
