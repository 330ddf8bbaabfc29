"""Runtime of the kernels: the JIT and its cache, intrinsics, vector registers."""
