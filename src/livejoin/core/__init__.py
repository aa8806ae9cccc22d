"""What livejoin is, without any of the machinery: pure, standard library only."""
