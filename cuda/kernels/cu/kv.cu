// Copies of keys and values to and from blocks.
#include "device.h"

// A block of threads handles one row.
KERNEL(troupe_store_kv, StoreKV, 256) {
  int slot = op.Slots[block_x()], dim = op.KV.KVHeads * op.KV.HeadDim;
  if (slot == -1) return; // padding
  if (slot < 0 || slot / op.KV.BlockTokens >= op.KV.Blocks) fail();
  char *block = op.KV.Arena + slot / op.KV.BlockTokens * op.KV.BlockBytes;
  long long to = (long long)(slot % op.KV.BlockTokens) * dim, from = (long long)block_x() * dim;
  float *keys = (float *)(block + op.KV.KeyOffset) + to, *values = (float *)(block + op.KV.ValueOffset) + to;
  for (int j = thread(); j < dim; j += 256) {
    keys[j] = op.K[from + j];
    values[j] = op.V[from + j];
  }
}

// copy moves a thread block's share of the bytes: the thread blocks with the same x take turns.
template <typename Element> DEVICE void copy(char *to, const char *from, long long bytes) {
  const long long n = bytes / sizeof(Element), stride = 256ll * blocks_y();
  for (long long i = block_y() * 256 + thread(); i < n; i += stride) ((Element *)to)[i] = ((const Element *)from)[i];
}

DEVICE void copy_block(char *to, const char *from, long long bytes) {
  if (aligned(to) && aligned(from) && bytes % 16 == 0)
    copy<u32x4>(to, from, bytes);
  else
    copy<u32>(to, from, bytes);
}

DEVICE int block_of(const int *list, int arena_blocks) {
  int block = list[block_x()];
  if (block < 0 || block >= arena_blocks) fail();
  return block;
}

KERNEL(troupe_gather_blocks, GatherBlocks, 256) {
  const char *from = op.Arena + block_of(op.Blocks, op.ArenaBlocks) * op.BlockBytes;
  copy_block(op.Out + block_x() * op.BlockBytes, from, op.BlockBytes);
}

KERNEL(troupe_scatter_blocks, ScatterBlocks, 256) {
  char *to = op.Arena + block_of(op.Blocks, op.ArenaBlocks) * op.BlockBytes;
  copy_block(to, op.In + block_x() * op.BlockBytes, op.BlockBytes);
}
