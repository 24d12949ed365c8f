// Kernels. The PTX gives the entry points and the sizes of their parameters; a shared object with
// the same kernels, built for the host, implements them.
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

struct library {
  struct kernel *kernels;
};

// The functions of a host build: one runs a launch in the calling thread, the other lists the
// kernels with the sizes of their parameters.
static int (*host_launch)(const char *entry, const unsigned grid[3], const unsigned block[3], unsigned shared, const void *parameter, size_t bytes);
static size_t (*host_entry)(int i, const char **name);

// fake_host_kernels opens a host build for libraries that are loaded later. The lock is held.
bool fake_host_kernels(const char *path) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *launch = handle ? dlsym(handle, "troupe_host_launch") : NULL, *entry = handle ? dlsym(handle, "troupe_host_entry") : NULL;
  if (!launch || !entry) {
    fprintf(stderr, "fakecuda: host build of the kernels: %s\n", dlerror());
    return false;
  }
  *(void **)&host_launch = launch;
  *(void **)&host_entry = entry;
  return true;
}

// has_host_build reports whether a kernel of that name takes a parameter of the size that its PTX has.
static bool has_host_build(const struct kernel *k) {
  const char *name;
  size_t bytes;
  for (int i = 0; host_entry && (bytes = host_entry(i, &name)); i++)
    if (!strcmp(name, k->name)) return bytes == k->parameter_bytes;
  return false;
}

// fake_run_kernel returns the result of a launch as a GPU would: any fault of a kernel is a failed
// launch.
CUresult fake_run_kernel(const struct task *t) {
  const unsigned *g = t->geometry;
  if (t->kernel->run) return t->kernel->run(t->parameter) ? LAUNCH_FAILED : SUCCESS;
  return host_launch(t->kernel->name, g, g + 3, g[6], t->parameter, t->kernel->parameter_bytes) ? LAUNCH_FAILED : SUCCESS;
}

// parameter_bytes reads the size of the one parameter: ".param .align 8 .b8 name_param_0[48]".
static size_t parameter_bytes(const char *from, const char *to) {
  const char *bracket = memchr(from, '[', (size_t)(to - from));
  return bracket ? (size_t)atol(bracket + 1) : 0;
}

static bool read_entries(struct library *l, const char *ptx) {
  const char *at = strstr(ptx, ".version");
  while (at && (at = strstr(at, ".entry"))) {
    at += strlen(".entry");
    while (isspace((unsigned char)*at)) at++;
    size_t length = strcspn(at, "( \t\n");
    const char *open = strchr(at, '('), *close = open ? strchr(open, ')') : NULL;
    if (!close) return false;
    struct kernel *k = calloc(1, sizeof *k);
    k->name = strndup(at, length);
    k->parameter_bytes = parameter_bytes(open, close);
    k->runs = has_host_build(k);
    k->next = l->kernels;
    l->kernels = k;
    at = close;
  }
  return strstr(ptx, ".version") != NULL;
}

static void discard(struct library *l) {
  while (l->kernels) {
    struct kernel *next = l->kernels->next;
    free(l->kernels->name);
    free(l->kernels);
    l->kernels = next;
  }
  free(l);
}

API CUresult cuLibraryLoadData(struct library **out, const char *code, int *options, void **values, unsigned n, int *library_options,
                               void **library_values, unsigned library_n) {
  ENTER_CONTEXT("cuLibraryLoadData");
  (void)options, (void)values, (void)n, (void)library_options, (void)library_values, (void)library_n;
  struct library *l = calloc(1, sizeof *l);
  if (!read_entries(l, code)) return discard(l), INVALID_PTX;
  pthread_mutex_lock(&fake.lock);
  fake_set_live(1);
  pthread_mutex_unlock(&fake.lock);
  *out = l;
  return SUCCESS;
}

API CUresult cuLibraryUnload(struct library *l) {
  ENTER("cuLibraryUnload");
  discard(l);
  pthread_mutex_lock(&fake.lock);
  fake_set_live(-1);
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

API CUresult cuLibraryGetKernel(struct kernel **out, struct library *l, const char *name) {
  ENTER("cuLibraryGetKernel");
  for (struct kernel *k = l->kernels; k; k = k->next) {
    if (strcmp(k->name, name)) continue;
    *out = k;
    return SUCCESS;
  }
  return NOT_FOUND;
}

API CUresult cuKernelSetAttribute(int attribute, int value, struct kernel *k, CUdevice device) {
  ENTER_CONTEXT("cuKernelSetAttribute");
  (void)k, (void)device;
  return attribute == 8 && value >= 0 && value <= 227 << 10 ? SUCCESS : INVALID_VALUE;
}

API CUresult cuLaunchKernel(struct kernel *k, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                            struct stream *s, void **parameters, void **extra) {
  ENTER_CONTEXT("cuLaunchKernel");
  if (s->context != fake_current) return INVALID_HANDLE;
  if (!k->runs) return NOT_SUPPORTED;
  if (extra || !gx || !gy || !gz || !bx || !by || !bz || (uint64_t)bx * by * bz > 1024 || gy > 65535 || gz > 65535) return INVALID_VALUE;
  return fake_submit(s, (struct task){
      .kind = LAUNCH, .kernel = k, .geometry = {gx, gy, gz, bx, by, bz, shared}, .parameter = k->parameter_bytes ? parameters[0] : NULL});
}

// by_name returns the kernel for a function, creating it on first use. It is never freed, since
// graphs refer to it.
static struct kernel *by_name(const char *name, int (*run)(const void *), size_t bytes) {
  static struct kernel *all;
  pthread_mutex_lock(&fake.lock);
  struct kernel *k = all;
  while (k && k->run != run) k = k->next;
  if (!k) {
    k = calloc(1, sizeof *k);
    *k = (struct kernel){.name = strdup(name), .parameter_bytes = bytes, .runs = true, .run = run, .next = all};
    all = k;
  }
  pthread_mutex_unlock(&fake.lock);
  return k;
}

// fakecuda_run queues a function on a stream, as libraries do with their kernels. Faults refer to
// it by its name.
API CUresult fakecuda_run(struct stream *s, const char *name, int (*run)(const void *parameter), const void *parameter, size_t bytes) {
  ENTER_CONTEXT("fakecuda_run");
  if (s->context != fake_current) return INVALID_HANDLE;
  return fake_submit(s, (struct task){.kind = LAUNCH, .kernel = by_name(name, run, bytes), .parameter = (void *)parameter});
}
