"""What operators look at: lag, liveness, readiness, metrics."""
