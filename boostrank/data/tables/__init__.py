"""Tables: columns by name, read by pyarrow, into blocks."""
