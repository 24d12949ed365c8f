// Green contexts: partitions of a device's multiprocessors. They are counted but not enforced.
#include <stdlib.h>

#include "fake.h"

enum { SM = 1, LEAST = 8 };

struct resource {
  int type;
  unsigned char padding[92];
  union {
    struct {
      unsigned multiprocessors, least, alignment;
    };
    unsigned char oversize[48];
  };
};

CUresult fake_stream_create(struct stream **out, struct context *context);

API CUresult cuDeviceGetDevResource(CUdevice i, struct resource *out, int type) {
  ENTER("cuDeviceGetDevResource");
  if (i < 0 || i >= fake.count) return INVALID_DEVICE;
  if (type != SM || !fake.devices[i].primary) return INVALID_VALUE;
  *out = (struct resource){.type = SM, .multiprocessors = fake.devices[i].primary->multiprocessors, .least = LEAST, .alignment = LEAST};
  return SUCCESS;
}

API CUresult cuDevSmResourceSplitByCount(struct resource *out, unsigned *groups, const struct resource *in, struct resource *rest, unsigned flags,
                                         unsigned least) {
  ENTER("cuDevSmResourceSplitByCount");
  if (flags || in->type != SM || !groups || !*groups) return INVALID_VALUE;
  unsigned each = (least + LEAST - 1) / LEAST * LEAST;
  if (each == 0) each = LEAST;
  if (each > in->multiprocessors) return INVALID_RESOURCE_CONFIGURATION;
  if (*groups > in->multiprocessors / each) *groups = in->multiprocessors / each;
  for (unsigned g = 0; g < *groups; g++) out[g] = (struct resource){.type = SM, .multiprocessors = each};
  if (rest) *rest = (struct resource){.type = SM, .multiprocessors = in->multiprocessors - *groups * each};
  return SUCCESS;
}

// A description is one resource and lives as long as the process, as with NVIDIA's driver.
API CUresult cuDevResourceGenerateDesc(struct resource **out, const struct resource *in, unsigned n) {
  ENTER("cuDevResourceGenerateDesc");
  if (n != 1 || in->type != SM) return INVALID_VALUE;
  *out = malloc(sizeof **out);
  **out = *in;
  return SUCCESS;
}

API CUresult cuGreenCtxCreate(struct context **out, const struct resource *description, CUdevice i, unsigned flags) {
  ENTER("cuGreenCtxCreate");
  if (flags != 1) return INVALID_VALUE;
  if (i < 0 || i >= fake.count) return INVALID_DEVICE;
  *out = calloc(1, sizeof **out);
  **out = (struct context){.device = &fake.devices[i], .multiprocessors = description->multiprocessors, .green = true};
  pthread_mutex_lock(&fake.lock);
  fake_set_live(1);
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

API CUresult cuCtxFromGreenCtx(struct context **out, struct context *green) {
  ENTER("cuCtxFromGreenCtx");
  *out = green;
  return SUCCESS;
}

API CUresult cuGreenCtxStreamCreate(struct stream **out, struct context *green, unsigned flags, int priority) {
  ENTER("cuGreenCtxStreamCreate");
  if (flags != 1 || priority > 0) return INVALID_VALUE;
  return fake_stream_create(out, green);
}

// The context is kept, like a primary one: it may still be the current one of a thread.
API CUresult cuGreenCtxDestroy(struct context *green) {
  ENTER("cuGreenCtxDestroy");
  (void)green;
  pthread_mutex_lock(&fake.lock);
  fake_set_live(-1);
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}
