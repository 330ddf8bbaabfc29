"""libsvm text with query ids: reader, stream and writer."""
