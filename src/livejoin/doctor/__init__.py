"""`livejoin doctor`: everything that a start needs, checked in its order, each wait bounded."""
