// The parts of CUDA that the kernels use, without a toolkit. This file defines them for a GPU, and
// host/emulate.h for a CPU, on which the same sources are tested.
#pragma once
#include "ops.h"

typedef u32 u32x4 __attribute__((vector_size(16)));
typedef float f32x4 __attribute__((vector_size(16)));

#ifdef __CUDA__

#define DEVICE __attribute__((device, always_inline)) inline
#define UNROLL _Pragma("unroll")
#define SHARED __attribute__((shared))
// KERNEL starts an entry point with op as its only parameter, run by blocks of the given number of
// threads.
#define KERNEL(name, Op, threads) \
  extern "C" __attribute__((global, launch_bounds(threads))) void name(const Op op)

DEVICE int thread() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE int block_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE int block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE int blocks_y() { return __nvvm_read_ptx_sreg_nctaid_y(); }

// barrier synchronises the threads of a block. Every thread must call it or have ended.
DEVICE void barrier() { __syncthreads(); }

// swap returns v of the thread whose lane differs by the bits of mask. All 32 threads call it.
DEVICE float swap(float v, int mask) { return __nvvm_shfl_sync_bfly_f32(~0u, v, mask, 31); }
DEVICE u32 swap(u32 v, int mask) { return __nvvm_shfl_sync_bfly_i32(~0u, v, mask, 31); }

// fail aborts the launch and all work of the context: a sticky fault.
[[noreturn]] DEVICE void fail() { __builtin_trap(); }

DEVICE float exp2_of(float x) { return __nvvm_ex2_approx_f(x); }
DEVICE float sqrt_of(float x) { return __nvvm_sqrt_rn_f(x); }

DEVICE float widen_f16(u16 h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}

// tf32 rounds to the 11 significant bits that a tensor core multiplies.
DEVICE u32 tf32(float x) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}

// mma adds a · b to c for a warp, with a 16 by 8, b 8 by 8, c 16 by 8: thread 4g+t has a[g][t], a[g+8][t], a[g][t+4], a[g+8][t+4];
// b[t][g], b[t+4][g]; c[g][2t], c[g][2t+1], c[g+8][2t], c[g+8][2t+1].
DEVICE void mma(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else
#include "host/emulate.h"
#endif

DEVICE float as_float(u32 bits) { return __builtin_bit_cast(float, bits); }
DEVICE u32 as_bits(float x) { return __builtin_bit_cast(u32, x); }
DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE float larger(float a, float b) { return __builtin_fmaxf(a, b); }
DEVICE int smaller(int a, int b) { return a < b ? a : b; }

DEVICE int lane() { return thread() % 32; }
DEVICE int warp() { return thread() / 32; }

DEVICE bool aligned(const void *p) { return (u64)p % 16 == 0; }

// exp_of computes eˣ to about two units in the last place: 2ⁿ · 2^(r/ln2), with n an integer and
// |r| at most ln2/2. It returns 0 on underflow, infinity on overflow, and propagates NaN.
DEVICE float exp_of(float x) {
  x = x < -105 ? -105 : x > 89 ? 89 : x;
  float n = __builtin_rintf(x * 1.44269504f);
  float r = fma(n, -0.693359375f, x);
  return exp2_of(fma(n, 2.12194440e-4f, r) * 1.44269504f) * exp2_of(n);
}

template <DType T> DEVICE float widen(u16 h) { return T == BF16 ? as_float((u32)h << 16) : widen_f16(h); }

// element returns element i of an array of T.
template <DType T> DEVICE float element(const void *p, long long i) {
  if constexpr (T == F32) return ((const float *)p)[i];
  return widen<T>(((const u16 *)p)[i]);
}

// widen8 converts eight 16-bit elements.
template <DType T> DEVICE void widen8(float (&out)[8], u32x4 raw) {
  UNROLL for (int i = 0; i < 4; i++) {
    out[2 * i] = widen<T>((u16)raw[i]);
    out[2 * i + 1] = widen<T>((u16)(raw[i] >> 16));
  }
}

// load8 loads eight floats from an aligned address.
DEVICE void load8(float (&out)[8], const float *p) {
  f32x4 lo = ((const f32x4 *)p)[0], hi = ((const f32x4 *)p)[1];
  UNROLL for (int i = 0; i < 4; i++) out[i] = lo[i], out[4 + i] = hi[i];
}

// warp_sum returns the sum over a warp, the same in all its threads.
DEVICE float warp_sum(float v) {
  UNROLL for (int mask = 16; mask; mask /= 2) v += swap(v, mask);
  return v;
}
