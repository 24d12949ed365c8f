// SplitRows prepares the input of a library's product, and JoinRows completes its output. Rows are
// independent.
#include "device.h"

// narrow rounds to nearest, ties to even.
template <DType T> DEVICE u16 narrow(float x) {
  u32 bits = as_bits(x), size = bits & ~(1u << 31), sign = bits >> 16 & 1u << 15;
  if (T == BF16) return x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : bits >> 16 | 64;
  if (x != x) return sign | 0x7e00;
  if (size >= as_bits(65520)) return sign | 0x7c00;
  if (size < as_bits(1.f / (1 << 14))) return sign | (as_bits(as_float(size) + 0.5f) - as_bits(0.5f)); // subnormal
  return sign | (size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13;
}

// power returns 2ⁿ, n in [-126, 127].
DEVICE float power(int n) { return as_float((u32)(n + 127) << 23); }

// fitting returns the exponent of the power of two that scales a row's largest element into [2¹³,
// 2¹⁵), as far as possible.
DEVICE int fitting(const float *in, int K) {
  SHARED float largest[8];
  float most = 0;
  for (int k = thread(); k < K; k += 256) most = larger(most, as_float(as_bits(in[k]) & ~(1u << 31)));
  UNROLL for (int mask = 16; mask; mask /= 2) most = larger(most, swap(most, mask));
  if (lane() == 0) largest[warp()] = most;
  barrier();
  UNROLL for (int i = 0; i < 8; i++) most = larger(most, largest[i]);
  int n = 127 + 14 - (int)(as_bits(most) >> 23);
  return n > 126 ? 126 : n;
}

template <DType T> DEVICE void split(const SplitRows &op) {
  const int row = block_x() % (TileRows / 2);
  const bool lo = block_x() != row;
  u16 *out = (u16 *)op.Out + (long long)block_x() * op.K;
  const float *in = op.In + (long long)row * op.K;
  int n = row < op.M && T == F16 ? fitting(in, op.K) : 0;
  if (row < op.M && !lo && thread() == 0) op.Scales[row] = power(-n);
  for (int k = thread(); k < op.K; k += 256) {
    float x = row < op.M ? in[k] * power(n) : 0, hi = widen<T>(narrow<T>(x));
    out[k] = narrow<T>(lo ? x - hi : x);
  }
}

KERNEL(troupe_split_rows, SplitRows, 256) {
  if (op.DType == BF16) return split<BF16>(op);
  if (op.DType == F16) return split<F16>(op);
  for (int k = thread(); k < op.K; k += 256) {
    long long i = (long long)block_x() * op.K + k;
    ((float *)op.Out)[i] = block_x() < op.M ? op.In[i] : 0;
  }
}

KERNEL(troupe_join_rows, JoinRows, 256) {
  int row = block_x(), n = block_y() * 256 + thread();
  if (n >= op.N) return;
  const float *in = op.In + (long long)row * op.N + n;
  float *out = op.Out + (long long)row * op.Stride + n, v = *in;
  if (op.DType != F32) v = (v + in[(long long)TileRows / 2 * op.N]) * op.Scales[row];
  if (op.Bias) v += op.Bias[n];
  *out = op.Accumulate ? *out + v : v;
}
