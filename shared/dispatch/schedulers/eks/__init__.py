"""Jobs on Kubernetes, EKS first: one Indexed Job an attempt, its evidence kept by a finalizer."""
