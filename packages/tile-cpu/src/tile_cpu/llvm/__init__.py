"""What this backend knows about LLVM: the features of a CPU and kernels written as LLVM IR."""
