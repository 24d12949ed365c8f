// Out = In · Weightᵀ.
//
// An element is the sum of four slices of K. Warp w adds the chunks of 32 with numbers congruent to
// w modulo 4, in order, and the slices are added as (0+2)+(1+3). Every tile uses the same
// instructions for this. So a row's bits depend neither on the other rows nor on the tile chosen
// for their number.
#include "device.h"

namespace {

// 16-bit weights are exact in TF32. An activation is the sum of two TF32 numbers to within 2⁻²², so
// two products on the tensor cores replace one product of F32.
//
// Whole means that rows consist of whole, aligned vectors of eight.
template <DType T, int NT, int MT, bool Whole> struct Tile {
  // Ahead is the number of chunks loaded before the first is multiplied, which keeps memory busy
  // when there are few tiles.
  enum { Ahead = NT * MT == 1 ? 4 : NT * MT < 32 ? 2 : 1 };

  // Chunk holds a thread's part of 32 columns: eight of each row, 0 past its end.
  struct Chunk {
    u32x4 weights[NT][2];
    float x[MT][8];
  };

  const MatMul &op;
  int n, m; // the tile's first column and row of Out: NT*16 columns by MT*8 rows
  float sum[NT][MT][4] = {};

  DEVICE Chunk read(int k) const {
    Chunk c = {};
    if (Whole && k >= op.K) return c;
    UNROLL for (int i = 0; i < NT * 2; i++) {
      long long row = smaller(n + i * 8 + lane() / 4, op.N - 1);
      const u16 *from = (const u16 *)op.Weight + row * op.K + k;
      u32x4 &to = c.weights[i / 2][i % 2];
      if (Whole)
        to = *(const u32x4 *)from;
      else
        UNROLL for (int j = 0; j < 8; j++) to[j / 2] |= k + j < op.K ? (u32)from[j] << j % 2 * 16 : 0;
    }
    UNROLL for (int i = 0; i < MT; i++) {
      const float *from = op.In + (long long)smaller(m + i * 8 + lane() / 4, op.M - 1) * op.K + k;
      if (Whole)
        load8(c.x[i], from);
      else
        UNROLL for (int j = 0; j < 8; j++) c.x[i][j] = k + j < op.K ? from[j] : 0;
    }
    return c;
  }

  DEVICE void multiply(const Chunk &c) {
    UNROLL for (int i = 0; i < MT; i++) UNROLL for (int j = 0; j < 4; j++) {
      float x = c.x[i][2 * j], y = c.x[i][2 * j + 1];
      u32 hi[2] = {tf32(x), tf32(y)}, lo[2] = {tf32(x - as_float(hi[0])), tf32(y - as_float(hi[1]))};
      UNROLL for (int w = 0; w < NT; w++) {
        u32 a = c.weights[w][0][j], b = c.weights[w][1][j];
        u32 weights[4] = {bits(a), bits(b), bits(a >> 16), bits(b >> 16)};
        mma(sum[w][i], weights, lo);
        mma(sum[w][i], weights, hi);
      }
    }
  }

  static DEVICE u32 bits(u32 half) { return as_bits(widen<T>((u16)half)); }

  DEVICE void multiply_all() {
    int first = warp() * 32, offset = lane() % 4 * 8;
    for (; first < op.K; first += Ahead * 128) {
      Chunk c[Ahead];
      UNROLL for (int i = 0; i < Ahead; i++) c[i] = read(first + offset + i * 128);
      UNROLL for (int i = 0; i < Ahead; i++) multiply(c[i]);
    }
  }

  // add_slices leaves the sum of all slices in the first warp.
  DEVICE void add_slices() {
    SHARED float parts[2][NT * MT * 4][32];
    UNROLL for (int half = 2; half; half /= 2) {
      if (warp() >= half && warp() < 2 * half)
        UNROLL for (int i = 0; i < NT * MT * 4; i++) parts[warp() - half][i][lane()] = sum[i / 4 / MT][i / 4 % MT][i % 4];
      barrier();
      if (warp() < half)
        UNROLL for (int i = 0; i < NT * MT * 4; i++) sum[i / 4 / MT][i / 4 % MT][i % 4] += parts[warp()][i][lane()];
      barrier();
    }
  }

  DEVICE void store() {
    UNROLL for (int i = 0; i < NT * MT * 4; i++) {
      int column = n + i / 4 / MT * 16 + i % 4 / 2 * 8 + lane() / 4, row = m + i / 4 % MT * 8 + lane() % 4 * 2 + i % 2;
      if (column >= op.N || row >= op.M) continue;
      float *out = op.Out + (long long)row * op.N + column, v = sum[i / 4 / MT][i / 4 % MT][i % 4];
      if (op.Bias) v += op.Bias[column];
      *out = op.Accumulate ? *out + v : v;
    }
  }
};

template <DType T, int NT, int MT, bool Whole = true> DEVICE void matmul(const MatMul &op) {
  Tile<T, NT, MT, Whole> tile{op, block_x() * NT * 16, block_y() * MT * 8};
  tile.multiply_all();
  tile.add_slices();
  if (warp() == 0) tile.store();
}

} // namespace

// Named by type and by the rows of a tile; any is for rows that are not whole.
KERNEL(troupe_matmul_f16_8, MatMul, 128) { matmul<F16, 1, 1>(op); }
KERNEL(troupe_matmul_f16_16, MatMul, 128) { matmul<F16, 2, 2>(op); }
KERNEL(troupe_matmul_f16_32, MatMul, 128) { matmul<F16, 2, 4>(op); }
KERNEL(troupe_matmul_f16_64, MatMul, 128) { matmul<F16, 4, 8>(op); }
KERNEL(troupe_matmul_f16_any, MatMul, 128) { matmul<F16, 1, 1, false>(op); }
KERNEL(troupe_matmul_bf16_8, MatMul, 128) { matmul<BF16, 1, 1>(op); }
KERNEL(troupe_matmul_bf16_16, MatMul, 128) { matmul<BF16, 2, 2>(op); }
KERNEL(troupe_matmul_bf16_32, MatMul, 128) { matmul<BF16, 2, 4>(op); }
KERNEL(troupe_matmul_bf16_64, MatMul, 128) { matmul<BF16, 4, 8>(op); }
KERNEL(troupe_matmul_bf16_any, MatMul, 128) { matmul<BF16, 1, 1, false>(op); }

// four loads elements k to k+3 of a row, 0 past its end.
DEVICE f32x4 four(const float *row, int k, int end, bool whole) {
  if (whole) return *(const f32x4 *)(row + k);
  f32x4 x = {};
  for (int j = 0; j < 4 && k + j < end; j++) x[j] = row[k + j];
  return x;
}

// F32 weights are multiplied without tensor cores: a warp handles four rows of weights and four of
// the input, and a thread four elements of each 128.
KERNEL(troupe_matmul_f32, MatMul, 128) {
  const int n = block_x() * 16 + warp() * 4, m = block_y() * 4;
  const bool whole = op.K % 4 == 0 && aligned(op.In) && aligned(op.Weight);
  float sum[4][4] = {};
  for (int k = lane() * 4; k < op.K; k += 128) {
    f32x4 w[4], x[4];
    UNROLL for (int i = 0; i < 4; i++) {
      w[i] = four((const float *)op.Weight + (long long)smaller(n + i, op.N - 1) * op.K, k, op.K, whole);
      x[i] = four(op.In + (long long)smaller(m + i, op.M - 1) * op.K, k, op.K, whole);
    }
    UNROLL for (int i = 0; i < 16; i++)
      UNROLL for (int j = 0; j < 4; j++) sum[i / 4][i % 4] = fma(w[i / 4][j], x[i % 4][j], sum[i / 4][i % 4]);
  }
  UNROLL for (int i = 0; i < 16; i++) {
    float v = warp_sum(sum[i / 4][i % 4]);
    int column = n + i / 4, row = m + i % 4;
    if (lane() != i || column >= op.N || row >= op.M) continue;
    if (op.Bias) v += op.Bias[column];
    float *out = op.Out + (long long)row * op.N + column;
    *out = op.Accumulate ? *out + v : v;
  }
}
