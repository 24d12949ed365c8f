// One module with all kernels.
#include "attention.cu"
#include "kv.cu"
#include "lora.cu"
#include "matmul.cu"
#include "rows.cu"
#include "split.cu"
