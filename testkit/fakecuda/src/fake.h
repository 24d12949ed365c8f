// Definitions shared by the parts of the fake driver. The public functions have the signatures of
// NVIDIA's driver API; see README.md.
#ifndef FAKE_H
#define FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;

enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201,
  ECC_UNCORRECTABLE = 214,
  PEER_ACCESS_UNSUPPORTED = 217,
  INVALID_PTX = 218,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  PEER_ACCESS_ALREADY_ENABLED = 704,
  HOST_MEMORY_ALREADY_REGISTERED = 712,
  LAUNCH_FAILED = 719,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  CAPTURE_UNMATCHED = 903,
  INVALID_RESOURCE_CONFIGURATION = 915,
  UNKNOWN = 999,
};

#define API __attribute__((visibility("default")))
#define MAX_DEVICES 8
#define GRANULE ((size_t)2 << 20)

// site is one public function; it counts its calls.
struct site {
  const char *name;
  long calls;
  bool known;
  struct site *next;
};

// ENTER starts every public function: it counts the call, and returns an injected fault.
#define ENTER(symbol)                          \
  static struct site site_ = {.name = symbol}; \
  CUresult early_ = fake_enter(&site_);        \
  if (early_) return early_

// ENTER_CONTEXT is for functions that need a current context. It returns 201 without one, and its
// device's sticky error if any.
#define ENTER_CONTEXT(symbol)     \
  ENTER(symbol);                  \
  early_ = fake_context_status(); \
  if (early_) return early_

// ENTER_RELEASE is for functions that free something. They do so on a broken device too, but return
// its error.
#define ENTER_RELEASE(symbol) \
  ENTER(symbol);              \
  if (!fake_current) return INVALID_CONTEXT

#define LEAVE_RELEASE(good) return (good) ? fake_context_status() : INVALID_VALUE

// block is a piece of a device's memory, [at, at + bytes) of its memfd. Blocks are sorted by at.
struct block {
  size_t at, bytes;
  int maps;       // of physical memory: number of mappings
  bool released;  // of physical memory: freed with its last mapping
  struct device *device;
  struct block *next;
};

struct device {
  int index;
  int memory;     // memfd
  uint8_t *base;  // all of it, mapped
  size_t bytes, used;
  struct block *blocks;
  struct context *primary;
  int retained;
  CUresult sticky;  // result of every call in a context of this device
  bool peers[MAX_DEVICES];
};

// context is a primary context, or a green one with a part of the multiprocessors.
struct context {
  struct device *device;
  unsigned multiprocessors;
  bool green;
};

// extent is a range of addresses that copies may access. Extents are sorted by start.
enum extent_kind { ALLOCATION, MAPPING, SHARED, PINNED, RESERVATION };
struct extent {
  uint64_t start, bytes;
  enum extent_kind kind;
  struct device *device;
  struct block *block;
  bool accessible;  // of a mapping: cuMemSetAccess was called
  struct extent *next;
};

struct event {
  struct context *context;
  uint64_t recorded, done;  // generations
  int references;
};

struct kernel {
  char *name;
  size_t parameter_bytes;
  bool runs;  // it has a host build
  int (*run)(const void *parameter);  // or a function
  struct kernel *next;
};

enum task_kind { COPY, LAUNCH, RECORD, WAIT };
struct task {
  enum task_kind kind;
  uint64_t to, from;
  size_t bytes;
  bool to_device, from_device;
  bool pinned;  // the host memory was locked when the copy was queued
  struct kernel *kernel;
  unsigned geometry[7];
  void *parameter;
  struct event *event;
  uint64_t generation;
  struct task *next;
};

struct graph {
  struct task *first, *last;
};

struct stream {
  struct context *context;
  pthread_t worker;
  pthread_cond_t more;
  struct task *first, *last;
  bool busy, closing, invalidated;
  struct graph *capture;
};

// fake is the state of the driver. lock guards everything but the memory of devices; changed is
// signalled when work is done.
struct fake {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_rwlock_t in_use;  // held for reading while work uses memory, for writing while memory is freed
  bool initialized, held;
  int count;
  struct device devices[MAX_DEVICES];
  struct extent *extents;
  long live;  // objects that must be freed
};
extern struct fake fake;
extern __thread struct context *fake_current;

// control.c
CUresult fake_enter(struct site *site);
CUresult fake_execution_fault(const char *what, const char *kernel);

// device.c
CUresult fake_context_status(void);
void fake_set_live(int change);

// memory.c: with the lock held
struct block *fake_take(struct device *device, size_t bytes, size_t align);
void fake_give(struct block *block);
struct extent *fake_extent_add(uint64_t start, uint64_t bytes, enum extent_kind kind, struct device *device, struct block *block);
struct extent *fake_extent_at(uint64_t start, enum extent_kind kind);
void fake_extent_remove(struct extent *extent);
bool fake_covered(uint64_t start, uint64_t bytes);
bool fake_pinned(uint64_t start, uint64_t bytes);
void fake_forget_pinned(const struct device *device);

// kernel.c
bool fake_host_kernels(const char *path);
CUresult fake_run_kernel(const struct task *task);

// graph.c
void fake_graph_free(struct graph *graph);

// stream.c
CUresult fake_submit(struct stream *stream, struct task task);
void fake_enqueue(struct stream *stream, struct task *task);
struct task *fake_task(const struct task *from);
void fake_task_free(struct task *task);

// event.c: with the lock held
void fake_event_drop(struct event *event);

#endif
