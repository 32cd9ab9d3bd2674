"""`T.gemm` on matrix cores: which instructions compute a product, and the statements that issue them."""
