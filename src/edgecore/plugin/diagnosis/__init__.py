"""Find what is wrong with an installed backend, without harm to this process."""
