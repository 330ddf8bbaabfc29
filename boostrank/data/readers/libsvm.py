"""libsvm text with query ids: the format of SVMrank, LETOR, MSLR, Yahoo and Istella."""

from boostrank.data.libsvm.pieces import libsvm_pieces
from boostrank.data.libsvm.reader import read_libsvm
from boostrank.data.libsvm.stream import stream_libsvm
from boostrank.data.readers import ReaderSpec

SPEC = ReaderSpec(
    "libsvm", read_libsvm, stream_libsvm, libsvm_pieces, (".libsvm", ".svm", ".svmlight", ".svmrank", ".letor"),
    aliases=("svmrank", "letor", "svmlight"),
)  # fmt: skip
