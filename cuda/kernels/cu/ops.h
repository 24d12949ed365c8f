// The arguments of each kernel, as in ops.go, which documents them; a test compares the layouts.
#pragma once

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

enum DType : unsigned char { F32, F16, BF16 };

struct Embed {
  float *Out;
  const void *Table;
  const int *Tokens;
  int N, Dim, Vocab;
  unsigned char DType;
};

struct RMSNorm {
  float *Out;
  const float *In, *Weight;
  int N, Dim;
  float Eps;
};

struct MatMul {
  float *Out;
  const float *In;
  const void *Weight;
  const float *Bias;
  int M, N, K;
  unsigned char DType;
  bool Accumulate;
};

enum { TileRows = 128 };

struct SplitRows {
  void *Out;
  const float *In;
  float *Scales;
  int M, K;
  unsigned char DType;
};

struct JoinRows {
  float *Out;
  const float *In, *Scales, *Bias;
  int M, N, Stride;
  unsigned char DType;
  bool Accumulate;
};

struct Rope {
  float *X;
  const int *Positions;
  const float *InvFreq;
  int N, Heads, HeadDim;
};

struct KVLayout {
  char *Arena;
  long long BlockBytes, KeyOffset, ValueOffset;
  int Blocks, BlockTokens, KVHeads, HeadDim;
};

struct StoreKV {
  const float *K, *V;
  const int *Slots;
  int N;
  KVLayout KV;
};

struct Attention {
  float *Out;
  const float *Q;
  const int *Rows, *Positions, *Tables;
  int TableWidth, N, Heads, Window;
  float Scale;
  KVLayout KV;
};

struct SiluMul {
  float *Out;
  const float *Gate, *Up;
  int N;
};

struct GatherRows {
  float *Out;
  const float *In;
  const int *Index;
  int N, Dim, InRows;
};

struct GatherBlocks {
  char *Out;
  const char *Arena;
  const int *Blocks;
  long long BlockBytes;
  int N, ArenaBlocks;
};

struct ScatterBlocks {
  char *Arena;
  const char *In;
  const int *Blocks;
  long long BlockBytes;
  int N, ArenaBlocks;
};

struct TopK {
  float *Values;
  int *Indices;
  const float *In;
  int N, Dim, K;
};

struct LoRA {
  const int *Rows;
  const char *const *Pages;
  const long long *Offsets;
  const int *Ranks;
  const float *Scales;
  int Adapters, PageWidth, MaxRank;
  unsigned char DType;
};

struct LoRAShrink {
  float *Mid;
  const float *In;
  int N, K;
  LoRA A;
};

struct LoRAExpand {
  float *Out;
  const float *Mid;
  int N, Dim;
  LoRA B;
};
