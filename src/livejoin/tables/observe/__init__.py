"""What operators look at: lag, liveness, readiness, figures, metrics."""
