"""The control plane: what is asked and what happens becomes facts, then a state, then steps."""
