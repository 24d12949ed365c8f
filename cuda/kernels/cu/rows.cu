// Row-wise and element-wise kernels. A block handles one row with a fixed number of threads, so
// that the order of a row's sums does not depend on its position in a batch.
#include "device.h"

template <DType T> DEVICE void embed(const Embed &op, int token) {
  for (int j = thread(); j < op.Dim; j += 256)
    op.Out[(long long)block_x() * op.Dim + j] = element<T>(op.Table, (long long)token * op.Dim + j);
}

KERNEL(troupe_embed, Embed, 256) {
  int token = op.Tokens[block_x()];
  if (token < 0 || token >= op.Vocab) fail();
  switch (op.DType) {
  case F32: return embed<F32>(op, token);
  case F16: return embed<F16>(op, token);
  case BF16: return embed<BF16>(op, token);
  }
  fail();
}

KERNEL(troupe_rmsnorm, RMSNorm, 256) {
  SHARED float sums[8];
  const float *in = op.In + (long long)block_x() * op.Dim;
  float *out = op.Out + (long long)block_x() * op.Dim;
  float sum = 0;
  for (int j = thread(); j < op.Dim; j += 256) sum = fma(in[j], in[j], sum);
  sum = warp_sum(sum);
  if (lane() == 0) sums[warp()] = sum;
  barrier();
  sum = 0;
  UNROLL for (int i = 0; i < 8; i++) sum += sums[i];
  float scale = 1 / sqrt_of(sum / op.Dim + op.Eps);
  for (int j = thread(); j < op.Dim; j += 256) out[j] = in[j] * scale * op.Weight[j];
}

// sin_cos reduces x to a quarter turn in double precision, for large positions, and uses Cephes'
// polynomials.
DEVICE void sin_cos(double x, float &sin, float &cos) {
  double n = __builtin_rint(x * 0.63661977236758134);
  float r = (float)__builtin_fma(n, -1.5707963267948966, x), z = r * r;
  float s = fma(fma(fma(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f), z * r, r);
  float c = fma(fma(fma(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f), z * z, fma(-0.5f, z, 1));
  int quarter = (int)((long long)n & 3);
  sin = quarter & 1 ? c : s;
  cos = quarter & 1 ? s : c;
  if (quarter & 2) sin = -sin;
  if ((quarter + 1) & 2) cos = -cos;
}

// A block handles four heads of a row.
KERNEL(troupe_rope, Rope, 64) {
  int half = op.HeadDim / 2, last = smaller(op.Heads, block_y() * 4 + 4);
  for (int j = thread(); j < half; j += 64) {
    float sin, cos;
    sin_cos((double)op.Positions[block_x()] * op.InvFreq[j], sin, cos);
    for (int head = block_y() * 4; head < last; head++) {
      float *x = op.X + ((long long)block_x() * op.Heads + head) * op.HeadDim + j;
      float a = x[0], b = x[half];
      x[0] = a * cos - b * sin;
      x[half] = b * cos + a * sin;
    }
  }
}

KERNEL(troupe_silu_mul, SiluMul, 256) {
  long long i = (long long)block_x() * 256 + thread();
  if (i < op.N) op.Out[i] = op.Gate[i] / (1 + exp_of(-op.Gate[i])) * op.Up[i];
}

KERNEL(troupe_gather_rows, GatherRows, 256) {
  int row = op.Index[block_x()];
  if (row < 0 || row >= op.InRows) fail();
  for (int j = thread(); j < op.Dim; j += 256)
    op.Out[(long long)block_x() * op.Dim + j] = op.In[(long long)row * op.Dim + j];
}

// outranks packs a number and its index so that larger numbers, and among equals lower indices,
// compare greater. 0 means none.
DEVICE u64 outranks(float v, int i) {
  u32 bits = as_bits(v + 0.0f); // of both zeros one
  return (u64)(bits >> 31 ? ~bits : bits | 1u << 31) << 32 | ~(u32)i;
}

DEVICE u64 warp_max(u64 v) {
  UNROLL for (int mask = 16; mask; mask /= 2) {
    u64 other = (u64)swap((u32)(v >> 32), mask) << 32 | swap((u32)v, mask);
    if (other > v) v = other;
  }
  return v;
}

// A block scans its row once for each of the K elements: the next is the largest of those below the
// last.
KERNEL(troupe_top_k, TopK, 1024) {
  SHARED u64 best[32];
  const float *in = op.In + (long long)block_x() * op.Dim;
  u64 last = ~0ull;
  for (int k = 0; k < op.K; k++) {
    u64 mine = 0;
    for (int i = thread(); i < op.Dim; i += 1024) {
      float v = in[i];
      u64 it = v == v ? outranks(v, i) : 0;
      if (it < last && it > mine) mine = it;
    }
    mine = warp_max(mine);
    if (lane() == 0) best[warp()] = mine;
    barrier();
    last = warp_max(best[lane()]);
    if (thread() == 0) {
      int i = last ? (int)~(u32)last : -1;
      op.Indices[(long long)block_x() * op.K + k] = i;
      op.Values[(long long)block_x() * op.K + k] = last ? in[i] : -__builtin_inff();
    }
    barrier(); // all have read best
  }
}
