// Virtual memory management: ranges are reserved, physical memory is created, and memory is mapped
// at ranges.
#include <stdlib.h>
#include <sys/mman.h>

#include "fake.h"

struct location {
  int type, id;  // type 1 is a device
};
struct properties {
  int type, handle_types;  // type 1 is pinned
  struct location location;
  void *windows;
  unsigned char compression, rdma;
  unsigned short usage;
  unsigned char reserved[4];
};
struct access {
  struct location location;
  int flags;  // 3 is read and write
};

static bool whole(uint64_t n) { return n && n % GRANULE == 0; }

static bool of_device(const struct location *l) { return l->type == 1 && l->id >= 0 && l->id < fake.count; }

API CUresult cuMemGetAllocationGranularity(size_t *granularity, const struct properties *p, int option) {
  ENTER("cuMemGetAllocationGranularity");
  if (!of_device(&p->location) || p->type != 1 || option < 0 || option > 1) return INVALID_VALUE;
  *granularity = GRANULE;
  return SUCCESS;
}

API CUresult cuMemAddressReserve(CUdeviceptr *at, size_t bytes, size_t align, CUdeviceptr hint, unsigned long long flags) {
  ENTER_CONTEXT("cuMemAddressReserve");
  if (!whole(bytes) || (align && align != GRANULE) || hint || flags) return INVALID_VALUE;
  size_t more = bytes + GRANULE;
  uint8_t *p = mmap(NULL, more, PROT_NONE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return OUT_OF_MEMORY;
  uint8_t *start = (uint8_t *)(((uintptr_t)p + GRANULE - 1) / GRANULE * GRANULE);
  if (start > p) munmap(p, (size_t)(start - p));
  if (start + bytes < p + more) munmap(start + bytes, (size_t)(p + more - start - bytes));
  *at = (CUdeviceptr)start;
  pthread_mutex_lock(&fake.lock);
  fake_extent_add(*at, bytes, RESERVATION, NULL, NULL);
  fake_set_live(1);
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

// mapped finds a mapping that touches the range. The lock is held.
static struct extent *mapped(CUdeviceptr at, size_t bytes) {
  for (struct extent *e = fake.extents; e; e = e->next)
    if (e->kind == MAPPING && e->start < at + bytes && at < e->start + e->bytes) return e;
  return NULL;
}

static bool reserved(CUdeviceptr at, size_t bytes) {
  for (struct extent *e = fake.extents; e; e = e->next)
    if (e->kind == RESERVATION && at >= e->start && at + bytes <= e->start + e->bytes) return true;
  return false;
}

API CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes) {
  ENTER_RELEASE("cuMemAddressFree");
  pthread_mutex_lock(&fake.lock);
  struct extent *e = fake_extent_at(at, RESERVATION);
  bool good = e && e->bytes == bytes && !mapped(at, bytes);
  if (good) {
    munmap((void *)at, bytes);
    fake_extent_remove(e);
    fake_set_live(-1);
  }
  pthread_mutex_unlock(&fake.lock);
  LEAVE_RELEASE(good);
}

API CUresult cuMemCreate(struct block **handle, size_t bytes, const struct properties *p, unsigned long long flags) {
  ENTER_CONTEXT("cuMemCreate");
  if (!whole(bytes) || !of_device(&p->location) || p->type != 1 || flags) return INVALID_VALUE;
  pthread_mutex_lock(&fake.lock);
  *handle = fake_take(&fake.devices[p->location.id], bytes, GRANULE);
  pthread_mutex_unlock(&fake.lock);
  return *handle ? SUCCESS : OUT_OF_MEMORY;
}

API CUresult cuMemRelease(struct block *handle) {
  ENTER_RELEASE("cuMemRelease");
  pthread_mutex_lock(&fake.lock);
  bool good = !handle->released;
  handle->released = true;
  if (good && handle->maps == 0) fake_give(handle);
  pthread_mutex_unlock(&fake.lock);
  LEAVE_RELEASE(good);
}

API CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, struct block *handle, unsigned long long flags) {
  ENTER_CONTEXT("cuMemMap");
  if (!whole(bytes) || at % GRANULE || offset || flags || bytes != handle->bytes) return INVALID_VALUE;
  pthread_mutex_lock(&fake.lock);
  bool good = reserved(at, bytes) && !mapped(at, bytes) &&
              mmap((void *)at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->device->memory, (off_t)handle->at) != MAP_FAILED;
  if (good) {
    fake_extent_add(at, bytes, MAPPING, handle->device, handle);
    handle->maps++;
  }
  pthread_mutex_unlock(&fake.lock);
  return good ? SUCCESS : INVALID_VALUE;
}

API CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const struct access *access, size_t count) {
  ENTER_CONTEXT("cuMemSetAccess");
  if (!whole(bytes) || count != 1 || !of_device(&access->location) || access->flags != 3) return INVALID_VALUE;
  pthread_mutex_lock(&fake.lock);
  size_t covered = 0;
  for (struct extent *e = fake.extents; e; e = e->next) {
    if (e->kind != MAPPING || e->start < at || e->start + e->bytes > at + bytes) continue;
    e->accessible = mprotect((void *)e->start, e->bytes, PROT_READ | PROT_WRITE) == 0;
    covered += e->bytes;
  }
  pthread_mutex_unlock(&fake.lock);
  return covered == bytes ? SUCCESS : INVALID_VALUE;
}

// unmap removes one mapping. The lock is held.
static void unmap(struct extent *e) {
  mmap((void *)e->start, e->bytes, PROT_NONE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, -1, 0);
  struct block *b = e->block;
  if (--b->maps == 0 && b->released) fake_give(b);
  fake_extent_remove(e);
}

API CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  ENTER_RELEASE("cuMemUnmap");
  if (!whole(bytes)) return INVALID_VALUE;
  pthread_rwlock_wrlock(&fake.in_use);
  pthread_mutex_lock(&fake.lock);
  size_t covered = 0;
  for (struct extent *e = fake.extents; e; e = e->next)
    if (e->kind == MAPPING && e->start >= at && e->start + e->bytes <= at + bytes) covered += e->bytes;
  struct extent *e;
  while (covered == bytes && (e = mapped(at, bytes))) unmap(e);
  pthread_mutex_unlock(&fake.lock);
  pthread_rwlock_unlock(&fake.in_use);
  LEAVE_RELEASE(covered == bytes);
}
