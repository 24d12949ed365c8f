#!/bin/sh
# Compiles the kernels to PTX, into the file named. Needs clang 19 and no CUDA.
set -eu
out=$(realpath "$1")
cd "$(dirname "$0")/cu"
clang++-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 --cuda-feature=+ptx80 -nocudainc -nocudalib \
  -S -O3 -std=c++17 -Wall -Werror -o "$out" all.cu
