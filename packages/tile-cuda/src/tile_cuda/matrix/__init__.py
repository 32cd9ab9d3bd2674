"""`T.gemm` on tensor cores: which instructions compute a product, and the statements that issue them."""
