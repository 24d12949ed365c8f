// CUDA on a CPU: a block's threads are fibers of one thread, which run in turn until they wait for
// each other. The order in which a tensor core adds is not documented; here products are added one
// by one in F32.
#pragma once

#define DEVICE inline
#define UNROLL
#define SHARED static thread_local
#define KERNEL(name, Op, threads)                                                                                   \
  static void name##_kernel(const Op &op);                                                                          \
  static Entry name##_entry(#name, sizeof(Op), threads, [](const void *op) { name##_kernel(*(const Op *)op); });    \
  extern "C" int name(const void *op, const unsigned geometry[7]) { return name##_entry.launch(op, geometry); }     \
  static void name##_kernel(const Op &op)

// Entry is a kernel with its name, in a list of all kernels.
struct Entry {
  const char *name;
  unsigned long param_bytes;
  unsigned threads;
  void (*run)(const void *op);
  Entry *next;
  Entry(const char *name, unsigned long param_bytes, unsigned threads, void (*run)(const void *));
  // launch runs a grid: blocks in x, y and z, threads in x, y and z, bytes of dynamic shared memory. It returns a CUresult.
  int launch(const void *op, const unsigned geometry[7]) const;
};

// Place is the position of the running fiber in its launch, and the machine that runs it. Functions take it as an
// argument, since it takes a call to find a variable of a thread in a library that is opened at run time.
struct Place {
  int thread, block_x, block_y, blocks_y;
  struct Machine *machine;
};
extern __thread Place place;

inline int thread() { return place.thread; }
inline int block_x() { return place.block_x; }
inline int block_y() { return place.block_y; }
inline int blocks_y() { return place.blocks_y; }

void meet_block(Place &place);
inline void barrier() { meet_block(place); }
[[noreturn]] void fail();

// Words is the data that a thread shares with its warp.
typedef u32 Words[6];
// words returns the place for the data of the warp's threads in this round.
Words *words(const Place &place);
// meet_warp waits for all threads of the warp.
void meet_warp(Place &place);

// exchange returns the data of all threads of the warp.
template <int N> const Words *exchange(const u32 (&mine)[N]) {
  Words *round = words(place);
  for (int i = 0; i < N; i++) round[place.thread % 32][i] = mine[i];
  meet_warp(place);
  return round;
}

inline u32 swap(u32 v, int mask) { return exchange({v})[place.thread % 32 ^ mask][0]; }
inline float swap(float v, int mask) { return __builtin_bit_cast(float, swap(__builtin_bit_cast(u32, v), mask)); }

inline float exp2_of(float x) { return __builtin_exp2f(x); }
inline float sqrt_of(float x) { return __builtin_sqrtf(x); }

inline float widen_f16(u16 h) {
  u32 sign = (u32)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
  float small = (float)fraction / (1 << 24); // a subnormal number
  if (exponent == 0) return sign ? -small : small;
  return __builtin_bit_cast(float, sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

inline u32 tf32(float x) {
  u32 bits = __builtin_bit_cast(u32, x);
  return x == x ? (bits + 0x1000) & ~0x1fffu : bits;
}

// tensor returns a number as a tensor core reads it.
inline float tensor(u32 bits) { return __builtin_bit_cast(float, bits & ~0x1fffu); }

inline void mma(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  const u32 mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  const Words *all = exchange(mine);
  const int g = place.thread % 32 / 4, t = place.thread % 4;
  float x[2][8], y[2][8];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) {
    const int row = i / 8, k = i % 8;
    x[row][k] = tensor(all[g * 4 + k % 4][row + k / 4 * 2]);
    y[row][k] = tensor(all[(t * 2 + row) * 4 + k % 4][4 + k / 4]);
  }
#pragma GCC unroll 32
  for (int i = 0; i < 32; i++) c[i % 4] = __builtin_fmaf(x[i % 4 / 2][i / 4], y[i % 4 % 2][i / 4], c[i % 4]);
}
