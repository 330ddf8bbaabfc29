"""Reader, stream and writer of libsvm text with query ids."""
