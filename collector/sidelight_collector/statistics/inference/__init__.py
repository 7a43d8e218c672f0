"""Estimation and tests.

design            the two sides as matrices
residuals
cluster_variance  effects with cluster-robust variance
autocorrelation   variance of a mean of correlated blocks
shrinkage         of variances (empirical Bayes)
zero_counts       of what one side does not have
student_t
fdr               false-discovery rate
power             what it takes to see a change
bootstrap
"""
