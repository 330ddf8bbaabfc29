"""Trees and piecewise linear functions, evaluated on documents."""
