"""Trees and piecewise linear functions, walked over documents."""
