// Device and host memory, and the known address ranges.
#include <stdlib.h>
#include <sys/mman.h>

#include "fake.h"

enum { ALIGN = 512 };

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// fake_take allocates first-fit. It returns NULL if there is no space.
struct block *fake_take(struct device *device, size_t bytes, size_t align) {
  bytes = round_up(bytes, align);
  struct block **link = &device->blocks;
  size_t at = 0;
  for (; *link; link = &(*link)->next) {
    if (at + bytes <= (*link)->at) break;
    at = round_up((*link)->at + (*link)->bytes, align);
  }
  if (bytes > device->bytes || at > device->bytes - bytes) return NULL;
  struct block *b = calloc(1, sizeof *b);
  *b = (struct block){.at = at, .bytes = bytes, .device = device, .next = *link};
  *link = b;
  device->used += bytes;
  fake_set_live(1);
  return b;
}

void fake_give(struct block *block) {
  struct block **link = &block->device->blocks;
  while (*link != block) link = &(*link)->next;
  *link = block->next;
  block->device->used -= block->bytes;
  fake_set_live(-1);
  free(block);
}

struct extent *fake_extent_add(uint64_t start, uint64_t bytes, enum extent_kind kind, struct device *device, struct block *block) {
  struct extent **link = &fake.extents;
  while (*link && (*link)->start < start) link = &(*link)->next;
  struct extent *e = calloc(1, sizeof *e);
  *e = (struct extent){.start = start, .bytes = bytes, .kind = kind, .device = device, .block = block, .next = *link};
  *link = e;
  return e;
}

struct extent *fake_extent_at(uint64_t start, enum extent_kind kind) {
  for (struct extent *e = fake.extents; e; e = e->next)
    if (e->start == start && e->kind == kind) return e;
  return NULL;
}

void fake_extent_remove(struct extent *extent) {
  struct extent **link = &fake.extents;
  while (*link != extent) link = &(*link)->next;
  *link = extent->next;
  free(extent);
}

static bool device_memory(const struct extent *e) {
  return e->kind == ALLOCATION || e->kind == SHARED || (e->kind == MAPPING && e->accessible);
}

// fake_covered reports whether [start, start + bytes) is device memory of one allocation or of
// adjacent mappings.
bool fake_covered(uint64_t start, uint64_t bytes) {
  for (struct extent *e = fake.extents; e && bytes; e = e->next) {
    if (!device_memory(e) || start < e->start || start - e->start >= e->bytes) continue;
    uint64_t here = e->start + e->bytes - start;
    if (here >= bytes) return true;
    if (e->kind != MAPPING) return false;
    start += here;
    bytes -= here;
  }
  return bytes == 0;
}

// fake_pinned reports whether [start, start + bytes) is locked host memory.
bool fake_pinned(uint64_t start, uint64_t bytes) {
  for (struct extent *e = fake.extents; e; e = e->next)
    if (e->kind == PINNED && start >= e->start && start - e->start + bytes <= e->bytes) return true;
  return false;
}

API CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes) {
  ENTER_CONTEXT("cuMemAlloc_v2");
  if (!bytes) return INVALID_VALUE;
  pthread_mutex_lock(&fake.lock);
  struct device *d = fake_current->device;
  struct block *b = fake_take(d, bytes, ALIGN);
  if (b) {
    *at = (CUdeviceptr)(d->base + b->at);
    fake_extent_add(*at, bytes, ALLOCATION, d, b);
  }
  pthread_mutex_unlock(&fake.lock);
  return b ? SUCCESS : OUT_OF_MEMORY;
}

API CUresult cuMemFree_v2(CUdeviceptr at) {
  ENTER_RELEASE("cuMemFree_v2");
  pthread_rwlock_wrlock(&fake.in_use);
  pthread_mutex_lock(&fake.lock);
  struct extent *e = fake_extent_at(at, ALLOCATION);
  if (e) {
    fake_give(e->block);
    fake_extent_remove(e);
  }
  pthread_mutex_unlock(&fake.lock);
  pthread_rwlock_unlock(&fake.in_use);
  LEAVE_RELEASE(e);
}

API CUresult cuMemGetInfo_v2(size_t *left, size_t *total) {
  ENTER_CONTEXT("cuMemGetInfo_v2");
  pthread_mutex_lock(&fake.lock);
  *total = fake_current->device->bytes;
  *left = *total - fake_current->device->used;
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

API CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
  ENTER_CONTEXT("cuMemHostRegister_v2");
  if (!at || !bytes || flags > 15) return INVALID_VALUE;
  pthread_mutex_lock(&fake.lock);
  bool had = fake_extent_at((uint64_t)at, PINNED);
  if (!had) fake_extent_add((uint64_t)at, bytes, PINNED, fake_current->device, NULL);
  fake_set_live(!had);
  pthread_mutex_unlock(&fake.lock);
  return had ? HOST_MEMORY_ALREADY_REGISTERED : SUCCESS;
}

API CUresult cuMemHostUnregister(void *at) {
  ENTER_RELEASE("cuMemHostUnregister");
  pthread_rwlock_wrlock(&fake.in_use);
  pthread_mutex_lock(&fake.lock);
  struct extent *e = fake_extent_at((uint64_t)at, PINNED);
  if (e) {
    fake_extent_remove(e);
    fake_set_live(-1);
  }
  pthread_mutex_unlock(&fake.lock);
  pthread_rwlock_unlock(&fake.in_use);
  LEAVE_RELEASE(e);
}

// fake_forget_pinned forgets the host memory that a device has locked. The lock is held.
void fake_forget_pinned(const struct device *device) {
  for (struct extent *e = fake.extents, *next; e; e = next) {
    next = e->next;
    if (e->kind != PINNED || e->device != device) continue;
    fake_extent_remove(e);
    fake_set_live(-1);
  }
}
