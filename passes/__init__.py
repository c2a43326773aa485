"""The passes of numc: from structured operations to explicit arithmetic and its kernels."""
