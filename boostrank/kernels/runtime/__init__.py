"""How kernels are compiled: the JIT and its cache, intrinsics, vector registers."""
