"""Estimation and tests.

design            the two sides as matrices
residuals         contributions of pods and times to the error
cluster_variance  effects with cluster-robust variance
autocorrelation   variance of a mean of correlated blocks
empirical_null    how far unchanged functions differ between two periods
fieller           intervals of ratios
shrinkage         of variances (empirical Bayes)
zero_counts       quantities that one side does not have
student_t         Student's t distribution
fdr               false-discovery rate
power             sample size that detects a change
bootstrap         intervals by resampling
"""
