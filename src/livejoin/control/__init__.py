"""The control plane: what is asked and what happened becomes facts, facts become a state, a state becomes steps."""
