// Devices, contexts, peers, and the names of errors.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

enum { MULTIPROCESSORS = 132, SM_GRANULE = 8 };

struct fake fake = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .in_use = PTHREAD_RWLOCK_INITIALIZER};
__thread struct context *fake_current;

static long from_environment(const char *name, long otherwise) {
  const char *value = getenv(name);
  return value && *value ? atol(value) : otherwise;
}

static void open_device(int i, size_t bytes) {
  struct device *d = &fake.devices[i];
  d->index = i;
  d->bytes = bytes;
  d->memory = memfd_create("fakecuda", MFD_CLOEXEC);
  if (d->memory < 0 || ftruncate(d->memory, (off_t)bytes)) abort();
  d->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, d->memory, 0);
  if (d->base == MAP_FAILED) abort();
}

API CUresult cuInit(unsigned flags) {
  ENTER("cuInit");
  if (flags) return INVALID_VALUE;
  pthread_mutex_lock(&fake.lock);
  if (!fake.initialized) {
    fake.count = (int)from_environment("FAKECUDA_DEVICES", 2);
    if (fake.count > MAX_DEVICES) fake.count = MAX_DEVICES;
    size_t bytes = (size_t)from_environment("FAKECUDA_MEM_MB", 256) << 20;
    for (int i = 0; i < fake.count; i++) open_device(i, bytes);
    fake.initialized = true;
  }
  pthread_mutex_unlock(&fake.lock);
  return fake.count ? SUCCESS : NO_DEVICE;
}

CUresult fake_context_status(void) {
  if (!fake.initialized) return NOT_INITIALIZED;
  if (!fake_current) return INVALID_CONTEXT;
  return __atomic_load_n(&fake_current->device->sticky, __ATOMIC_ACQUIRE);
}

// fake_set_live counts objects that must be freed. The lock is held.
void fake_set_live(int change) { fake.live += change; }

static CUresult check(CUdevice i) {
  if (!fake.initialized) return NOT_INITIALIZED;
  return i >= 0 && i < fake.count ? SUCCESS : INVALID_DEVICE;
}

#define ENTER_DEVICE(symbol, i) \
  ENTER(symbol);                \
  early_ = check(i);            \
  if (early_) return early_

API CUresult cuDriverGetVersion(int *version) {
  ENTER("cuDriverGetVersion");
  *version = (int)from_environment("FAKECUDA_VERSION", 13000);
  return SUCCESS;
}

API CUresult cuDeviceGetCount(int *count) {
  ENTER("cuDeviceGetCount");
  if (!fake.initialized) return NOT_INITIALIZED;
  *count = fake.count;
  return SUCCESS;
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER_DEVICE("cuDeviceGet", ordinal);
  *device = ordinal;
  return SUCCESS;
}

API CUresult cuDeviceGetName(char *name, int length, CUdevice i) {
  ENTER_DEVICE("cuDeviceGetName", i);
  snprintf(name, (size_t)length, "fake GPU (testkit/fakecuda)");
  return SUCCESS;
}

API CUresult cuDeviceGetUuid_v2(unsigned char uuid[16], CUdevice i) {
  ENTER_DEVICE("cuDeviceGetUuid_v2", i);
  memcpy(uuid, "fake\0\0\0\0\0\0\0\0\0\0\0", 15);
  uuid[15] = (unsigned char)i;
  return SUCCESS;
}

API CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice i) {
  ENTER_DEVICE("cuDeviceGetPCIBusId", i);
  snprintf(id, (size_t)length, "0000:%02X:00.0", 0x17 + i);
  return SUCCESS;
}

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice i) {
  ENTER_DEVICE("cuDeviceTotalMem_v2", i);
  *bytes = fake.devices[i].bytes;
  return SUCCESS;
}

API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice i) {
  ENTER_DEVICE("cuDeviceGetAttribute", i);
  switch (attribute) {
    case 16: *value = MULTIPROCESSORS; break;
    case 38: *value = 50 << 20; break;   // L2
    case 40: *value = 3; break;          // copy engines
    case 75: *value = 9; break;          // compute capability
    case 76: *value = 0; break;
    case 97: *value = 227 << 10; break;  // shared memory per block
    case 102: *value = 1; break;         // virtual memory
    default: return INVALID_VALUE;
  }
  return SUCCESS;
}

API CUresult cuDevicePrimaryCtxRetain(struct context **context, CUdevice i) {
  ENTER_DEVICE("cuDevicePrimaryCtxRetain", i);
  pthread_mutex_lock(&fake.lock);
  struct device *d = &fake.devices[i];
  if (!d->primary) {
    d->primary = calloc(1, sizeof *d->primary);
    *d->primary = (struct context){.device = d, .multiprocessors = MULTIPROCESSORS};
  }
  d->retained++;
  fake_set_live(1);
  *context = d->primary;
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice i, unsigned flags) {
  ENTER_DEVICE("cuDevicePrimaryCtxSetFlags_v2", i);
  return flags < 8 ? SUCCESS : INVALID_VALUE;
}

// The context itself is kept: it may still be the current one of a thread. Its use must be an
// error, not a crash.
API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice i) {
  ENTER_DEVICE("cuDevicePrimaryCtxRelease_v2", i);
  pthread_mutex_lock(&fake.lock);
  int held = fake.devices[i].retained;
  if (held > 0) fake.devices[i].retained--;
  fake_set_live(held > 0 ? -1 : 0);
  memset(fake.devices[i].peers, 0, sizeof fake.devices[i].peers);
  pthread_mutex_unlock(&fake.lock);
  return held > 0 ? SUCCESS : INVALID_CONTEXT;
}

// A reset repairs a broken device and discards its objects. Here these are only the locked host
// memory, since the caller has freed the rest.
API CUresult cuDevicePrimaryCtxReset_v2(CUdevice i) {
  ENTER_DEVICE("cuDevicePrimaryCtxReset_v2", i);
  pthread_mutex_lock(&fake.lock);
  fake.devices[i].sticky = SUCCESS;
  fake_forget_pinned(&fake.devices[i]);
  memset(fake.devices[i].peers, 0, sizeof fake.devices[i].peers);
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

API CUresult cuCtxSetCurrent(struct context *context) {
  ENTER("cuCtxSetCurrent");
  fake_current = context;
  return SUCCESS;
}

API CUresult cuDeviceCanAccessPeer(int *can, CUdevice i, CUdevice peer) {
  ENTER_DEVICE("cuDeviceCanAccessPeer", i);
  if (check(peer)) return check(peer);
  *can = i != peer;
  return SUCCESS;
}

API CUresult cuCtxEnablePeerAccess(struct context *peer, unsigned flags) {
  ENTER_CONTEXT("cuCtxEnablePeerAccess");
  if (flags || peer->device == fake_current->device) return INVALID_VALUE;
  bool *enabled = &fake_current->device->peers[peer->device->index];
  if (*enabled) return PEER_ACCESS_ALREADY_ENABLED;
  *enabled = true;
  return SUCCESS;
}

static const struct {
  CUresult code;
  const char *name, *text;
} errors[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported; is there a host build of the kernel in FAKECUDA_KERNELS?"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture was not initiated in this stream"},
    {UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult describe(CUresult code, const char **name, const char **text) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    if (errors[i].code != code) continue;
    *name = errors[i].name;
    *text = errors[i].text;
    return SUCCESS;
  }
  *name = *text = NULL;
  return INVALID_VALUE;
}

API CUresult cuGetErrorName(CUresult code, const char **name) {
  const char *text;
  return describe(code, name, &text);
}

API CUresult cuGetErrorString(CUresult code, const char **text) {
  const char *name;
  return describe(code, &name, text);
}
