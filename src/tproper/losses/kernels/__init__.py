"""Fast paths of the losses: blocks of rows on the CPU, one Triton kernel on CUDA."""
