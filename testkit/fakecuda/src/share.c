// Memory shared between processes: a handle names the process, its file and the offset.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

struct handle {
  int process, file;
  uint64_t at, bytes;
  char rest[64 - 2 * sizeof(int) - 2 * sizeof(uint64_t)];
};

API CUresult cuIpcGetMemHandle(struct handle *out, CUdeviceptr at) {
  ENTER_CONTEXT("cuIpcGetMemHandle");
  pthread_mutex_lock(&fake.lock);
  struct extent *e = fake_extent_at(at, ALLOCATION);
  if (e) *out = (struct handle){.process = getpid(), .file = e->device->memory, .at = e->block->at, .bytes = e->block->bytes};
  pthread_mutex_unlock(&fake.lock);
  return e ? SUCCESS : INVALID_VALUE;
}

// mmap needs page alignment, so a mapping may start before its memory.
static uint64_t before(uint64_t at) { return at % (uint64_t)sysconf(_SC_PAGESIZE); }

API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *at, struct handle h, unsigned flags) {
  ENTER_CONTEXT("cuIpcOpenMemHandle_v2");
  if (flags != 1) return INVALID_VALUE;
  if (h.process == getpid()) return INVALID_CONTEXT;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", h.process, h.file);
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return INVALID_VALUE;
  uint64_t skip = before(h.at);
  uint8_t *p = mmap(NULL, h.bytes + skip, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)(h.at - skip));
  close(file);
  if (p == MAP_FAILED) return OUT_OF_MEMORY;
  *at = (CUdeviceptr)(p + skip);
  pthread_mutex_lock(&fake.lock);
  fake_extent_add(*at, h.bytes, SHARED, fake_current->device, NULL);
  fake_set_live(1);
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

API CUresult cuIpcCloseMemHandle(CUdeviceptr at) {
  ENTER_RELEASE("cuIpcCloseMemHandle");
  pthread_rwlock_wrlock(&fake.in_use);
  pthread_mutex_lock(&fake.lock);
  struct extent *e = fake_extent_at(at, SHARED);
  if (e) {
    uint64_t skip = before(at);
    munmap((void *)(at - skip), e->bytes + skip);
    fake_extent_remove(e);
    fake_set_live(-1);
  }
  pthread_mutex_unlock(&fake.lock);
  pthread_rwlock_unlock(&fake.in_use);
  LEAVE_RELEASE(e);
}
