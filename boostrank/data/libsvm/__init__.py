"""libsvm text with query ids: reader, stream, writer."""

from boostrank.core.deprecation import renamed

_MOVED = "FeatureSpace parse_label_map read_libsvm write_libsvm"
__getattr__ = renamed(__name__, dict.fromkeys(_MOVED.split(), "boostrank.data.libsvm.reader"))
