// Batched adapters. Adjacent rows of one adapter, at most eight and never across a multiple of
// eight, share loads. Each row has its own sums in a fixed order, so its bits do not depend on its
// neighbours.
#include "device.h"

namespace {

enum { Together = 8, MaxRank = 256, PageBytes = 2 << 20 };

// Matrix is an adapter's matrix, for a run of rows.
template <DType T> struct Matrix {
  const char *const *pages;
  long long at; // in the adapter's pages
  int rank, rows;
  float scale;

  static DEVICE int size() { return T == F32 ? 4 : 2; }

  DEVICE const char *address(long long element) const {
    long long byte = at + element * size();
    const char *page = pages[byte / PageBytes];
    if (!page) fail();
    return page + byte % PageBytes;
  }

  // eight loads n elements from i on, followed by zeros. For whole rows, 16 bytes never cross a
  // page boundary.
  DEVICE void eight(float (&out)[8], long long i, int n, bool whole) const {
    if (!whole) {
      UNROLL for (int j = 0; j < 8; j++) out[j] = j < n ? element<T>(address(i + j), 0) : 0;
    } else if constexpr (T == F32) {
      f32x4 lo = *(const f32x4 *)address(i), hi = *(const f32x4 *)address(i + 4);
      UNROLL for (int j = 0; j < 4; j++) out[j] = lo[j], out[4 + j] = hi[j];
    } else {
      widen8<T>(out, *(const u32x4 *)address(i));
    }
  }
};

// matrix returns the matrix for the rows from the thread block's first row on. It has no rows if
// they belong to another block or have no adapter. One dimension is the rank, the other is length.
template <DType T> DEVICE Matrix<T> matrix(const LoRA &op, int n, int length) {
  int row = block_x(), adapter = op.Rows[row];
  Matrix<T> m = {};
  if (adapter < -1 || adapter >= op.Adapters) fail();
  if (adapter == -1 || op.Offsets[adapter] < 0 || (row % Together && op.Rows[row - 1] == adapter)) return m;
  m.pages = op.Pages + (long long)adapter * op.PageWidth;
  m.at = op.Offsets[adapter];
  m.rank = op.Ranks[adapter];
  m.scale = op.Scales[adapter];
  long long end = m.at + (long long)m.rank * length * m.size();
  if (m.rank < 1 || m.rank > op.MaxRank || m.at % 16 || end > (long long)op.PageWidth * PageBytes) fail();
  while (row + m.rows < n && op.Rows[row + m.rows] == adapter && (m.rows == 0 || (row + m.rows) % Together)) m.rows++;
  return m;
}

// shrink: a warp computes one row of A, and a thread eight elements of each 256 of it.
template <DType T> DEVICE void shrink(const LoRAShrink &op) {
  const Matrix<T> a = matrix<T>(op.A, op.N, op.K);
  const int r = block_y() * 4 + warp();
  if (a.rows == 0 || r >= a.rank) return;
  const bool whole = op.K % 8 == 0 && aligned(op.In);
  const float *in = op.In + (long long)block_x() * op.K;
  float sum[Together] = {};
  for (int k = lane() * 8; k < op.K; k += 256) {
    float w[8];
    a.eight(w, (long long)r * op.K + k, op.K - k, whole);
    UNROLL for (int i = 0; i < Together; i++) {
      if (i >= a.rows) continue;
      const float *x = in + (long long)i * op.K + k;
      float v[8] = {};
      if (whole)
        load8(v, x);
      else
        for (int j = 0; j < 8 && k + j < op.K; j++) v[j] = x[j];
      UNROLL for (int j = 0; j < 8; j++) sum[i] = fma(w[j], v[j], sum[i]);
    }
  }
  UNROLL for (int i = 0; i < Together; i++) {
    float v = warp_sum(sum[i]) * a.scale;
    if (lane() == 0 && i < a.rows) op.Mid[(long long)(block_x() + i) * op.A.MaxRank + r] = v;
  }
}

// expand: a thread computes one row of B, which is one column of Out.
template <DType T> DEVICE void expand(const LoRAExpand &op) {
  SHARED float mid[Together][MaxRank];
  const Matrix<T> b = matrix<T>(op.B, op.N, op.Dim);
  if (b.rows == 0) return;
  for (int i = thread(); i < b.rows * b.rank; i += 128)
    mid[i / b.rank][i % b.rank] = op.Mid[(long long)(block_x() + i / b.rank) * op.B.MaxRank + i % b.rank];
  barrier();
  const int column = block_y() * 128 + thread();
  if (column >= op.Dim) return;
  float sum[Together] = {};
  for (int r = 0; r < b.rank; r += 8) {
    float w[8];
    b.eight(w, (long long)column * b.rank + r, b.rank - r, b.rank % 8 == 0);
    UNROLL for (int i = 0; i < Together; i++) {
      if (i >= b.rows) continue;
      for (int j = 0; j < 8 && r + j < b.rank; j++) sum[i] = fma(w[j], mid[i][r + j], sum[i]);
    }
  }
  UNROLL for (int i = 0; i < Together; i++)
    if (i < b.rows) op.Out[(long long)(block_x() + i) * op.Dim + column] += sum[i];
}

} // namespace

KERNEL(troupe_lora_shrink, LoRAShrink, 128) {
  if (op.A.MaxRank > MaxRank) fail();
  switch (op.A.DType) {
  case F32: return shrink<F32>(op);
  case F16: return shrink<F16>(op);
  case BF16: return shrink<BF16>(op);
  }
  fail();
}

KERNEL(troupe_lora_expand, LoRAExpand, 128) {
  if (op.B.MaxRank > MaxRank) fail();
  switch (op.B.DType) {
  case F32: return expand<F32>(op);
  case F16: return expand<F16>(op);
  case BF16: return expand<BF16>(op);
  }
  fail();
}
