"""What is asked: problems declared in CVXPY, the features they are about, and the convex programs they become."""
