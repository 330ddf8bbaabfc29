"""libsvm text with query ids: reader, stream, writer."""
