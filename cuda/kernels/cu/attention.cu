// Causal attention over paged keys and values, for prefill and decode.
//
// A block has one row of Q and up to four heads that share a KV head. Its threads form 32 teams of
// eight. Team i handles the positions congruent to i modulo 32, and keeps its own running maximum,
// sum and mean (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). At the
// end, the teams' results are combined in a fixed order. So a row's result depends on its position
// and on nothing else in the batch.
#include "device.h"

namespace {

// V is the number of groups of four elements per thread of a team, H the number of heads per block.
template <int V, int H> struct Look {
  const Attention &op;
  int first_head, heads, kv_head; // of this block
  float q[H][V][4], mean[H][V][4] = {};
  float top[H], sum[H] = {};

  // at returns a thread's first element of its v-th group of four.
  static DEVICE int at(int v) { return v * 32 + thread() % 8 * 4; }

  // four loads four elements of a head, 0 past its end.
  DEVICE void four(float (&out)[4], const float *head, int v) const {
    int dim = op.KV.HeadDim, j = at(v);
    if (dim % 4 == 0 && aligned(head)) {
      f32x4 x = {};
      if (j < dim) x = *(const f32x4 *)(head + j);
      UNROLL for (int i = 0; i < 4; i++) out[i] = x[i];
    } else {
      UNROLL for (int i = 0; i < 4; i++) out[i] = j + i < dim ? head[j + i] : 0;
    }
  }

  DEVICE void start() {
    UNROLL for (int h = 0; h < H; h++) {
      top[h] = -__FLT_MAX__;
      // A block with fewer heads repeats its last one.
      int head = first_head + smaller(h, heads - 1);
      const float *from = op.Q + ((long long)block_x() * op.Heads + head) * op.KV.HeadDim;
      UNROLL for (int v = 0; v < V; v++) {
        four(q[h][v], from, v);
        UNROLL for (int i = 0; i < 4; i++) q[h][v][i] *= op.Scale;
      }
    }
  }

  // look processes position p if the row sees it. All threads of a warp call it.
  DEVICE void look(int p, bool seen) {
    float key[V][4] = {}, value[V][4] = {};
    if (seen) {
      int block = op.Tables[(long long)op.Rows[block_x()] * op.TableWidth + p / op.KV.BlockTokens];
      if (block < 0 || block >= op.KV.Blocks) fail();
      const char *base = op.KV.Arena + block * op.KV.BlockBytes;
      long long from = ((long long)(p % op.KV.BlockTokens) * op.KV.KVHeads + kv_head) * op.KV.HeadDim;
      UNROLL for (int v = 0; v < V; v++) {
        four(key[v], (const float *)(base + op.KV.KeyOffset) + from, v);
        four(value[v], (const float *)(base + op.KV.ValueOffset) + from, v);
      }
    }
    UNROLL for (int h = 0; h < H; h++) {
      float score = 0;
      UNROLL for (int i = 0; i < V * 4; i++) score = fma(q[h][i / 4][i % 4], key[i / 4][i % 4], score);
      UNROLL for (int mask = 4; mask; mask /= 2) score += swap(score, mask);
      if (!seen) continue;
      float highest = larger(top[h], score), old = exp_of(top[h] - highest), weight = exp_of(score - highest);
      top[h] = highest;
      sum[h] = fma(sum[h], old, weight);
      UNROLL for (int i = 0; i < V * 4; i++) mean[h][i / 4][i % 4] = fma(mean[h][i / 4][i % 4], old, weight * value[i / 4][i % 4]);
    }
  }

  // join combines the four teams of a warp.
  DEVICE void join() {
    UNROLL for (int h = 0; h < H; h++)
      UNROLL for (int mask = 8; mask < 32; mask *= 2) {
        float highest = larger(top[h], swap(top[h], mask)), scale = exp_of(top[h] - highest);
        top[h] = highest;
        sum[h] *= scale;
        sum[h] += swap(sum[h], mask);
        UNROLL for (int i = 0; i < V * 4; i++) {
          float &m = mean[h][i / 4][i % 4];
          m *= scale;
          m += swap(m, mask);
        }
      }
  }

  // store combines the results of the warps and writes the heads.
  DEVICE void store() {
    SHARED float means[8][H][V * 32], tops[8][H], sums[8][H];
    if (lane() < 8)
      UNROLL for (int h = 0; h < H; h++) {
        tops[warp()][h] = top[h];
        sums[warp()][h] = sum[h];
        UNROLL for (int i = 0; i < V * 4; i++) means[warp()][h][at(i / 4) + i % 4] = mean[h][i / 4][i % 4];
      }
    barrier();
    float *out = op.Out + ((long long)block_x() * op.Heads + first_head) * op.KV.HeadDim;
    for (int i = thread(); i < heads * op.KV.HeadDim; i += 256) {
      int h = i / op.KV.HeadDim;
      float highest = -__FLT_MAX__, total = 0, all = 0;
      UNROLL for (int w = 0; w < 8; w++) highest = larger(highest, tops[w][h]);
      UNROLL for (int w = 0; w < 8; w++) {
        float scale = exp_of(tops[w][h] - highest);
        total = fma(sums[w][h], scale, total);
        all = fma(means[w][h][i % op.KV.HeadDim], scale, all);
      }
      out[i] = all / total;
    }
  }
};

template <int V, int H> DEVICE void attention(const Attention &op) {
  const int group = op.Heads / op.KV.KVHeads, parts = (group + H - 1) / H;
  const int kv_head = block_y() / parts, part = block_y() % parts * H;
  const int last = op.Positions[block_x()], first = op.Window > 0 && last >= op.Window ? last - op.Window + 1 : 0;
  if (op.Rows[block_x()] == -1) { // padding
    const int first_head = kv_head * group + part, n = smaller(H, group - part) * op.KV.HeadDim;
    float *out = op.Out + ((long long)block_x() * op.Heads + first_head) * op.KV.HeadDim;
    for (int i = thread(); i < n; i += 256) out[i] = 0;
    return;
  }
  if (op.Rows[block_x()] < 0 || last < 0 || last >= op.TableWidth * op.KV.BlockTokens) fail();
  Look<V, H> l{op, kv_head * group + part, smaller(H, group - part), kv_head};
  l.start();
  for (int p = first / 32 * 32 + thread() / 8; p - thread() / 8 <= last; p += 32) l.look(p, p >= first && p <= last);
  l.join();
  l.store();
}

} // namespace

// Named by the maximum head size and the maximum number of heads per block.
KERNEL(troupe_attention_64_1, Attention, 256) { attention<2, 1>(op); }
KERNEL(troupe_attention_64_4, Attention, 256) { attention<2, 4>(op); }
KERNEL(troupe_attention_128_1, Attention, 256) { attention<4, 1>(op); }
KERNEL(troupe_attention_128_4, Attention, 256) { attention<4, 4>(op); }
KERNEL(troupe_attention_256_1, Attention, 256) { attention<8, 1>(op); }
