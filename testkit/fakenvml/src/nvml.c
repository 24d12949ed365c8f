// A fake libnvidia-ml.so.1. The file "gpus" in the library's folder describes its devices; see
// fakenvml.go for the format. Built with -DOLD it lacks the functions that drivers before R450
// lack.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, LOST = 15 };
enum { MAX_GPUS = 16, MAX_XIDS = 64, MAX_LINKS = 18 };

typedef unsigned int u32;
typedef unsigned long long u64;

typedef struct {
  char name[96], uuid[96], pci[32], links[MAX_LINKS][32];
  u64 total, used, corrected, uncorrectable, xids[MAX_XIDS];
  u32 gpu_util, memory_util, temperature, power, power_limit, gen, width, max_gen, max_width;
  u32 pending, failed, nlinks, nxids, levels[MAX_GPUS];
  int lost;
} gpu;

static struct { char driver[80]; int cuda, result, count; gpu gpus[MAX_GPUS]; } machine;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// An event set holds one device and the number of its events that were delivered.
typedef struct { int index; u32 taken; } set;

static int in_gpu(gpu *g, const char *key, const char *value) {
  struct { const char *key; u64 *at; } longs[] = {
    {"memory_total", &g->total}, {"memory_used", &g->used}, {"ecc_corrected", &g->corrected}, {"ecc_uncorrectable", &g->uncorrectable}};
  struct { const char *key; u32 *at; } ints[] = {
    {"utilisation", &g->gpu_util}, {"memory_utilisation", &g->memory_util}, {"temperature", &g->temperature}, {"power", &g->power},
    {"power_limit", &g->power_limit}, {"pcie_generation", &g->gen}, {"pcie_width", &g->width}, {"pcie_max_generation", &g->max_gen},
    {"pcie_max_width", &g->max_width}, {"remap_pending", &g->pending}, {"remap_failed", &g->failed}, {"lost", (u32 *)&g->lost}};
  for (size_t i = 0; i < sizeof longs / sizeof *longs; i++)
    if (!strcmp(key, longs[i].key)) return *longs[i].at = strtoull(value, 0, 10), 1;
  for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
    if (!strcmp(key, ints[i].key)) return *ints[i].at = (u32)strtoul(value, 0, 10), 1;
  if (!strcmp(key, "name")) return snprintf(g->name, sizeof g->name, "%s", value), 1;
  if (!strcmp(key, "uuid")) return snprintf(g->uuid, sizeof g->uuid, "%s", value), 1;
  if (!strcmp(key, "pci")) return snprintf(g->pci, sizeof g->pci, "%s", value), 1;
  if (!strcmp(key, "nvlink") && g->nlinks < MAX_LINKS) return snprintf(g->links[g->nlinks++], 32, "%s", value), 1;
  if (!strcmp(key, "xid") && g->nxids < MAX_XIDS) return g->xids[g->nxids++] = strtoull(value, 0, 10), 1;
  u32 to, level;
  if (!strcmp(key, "level") && sscanf(value, "%u %u", &to, &level) == 2 && to < MAX_GPUS) return g->levels[to] = level, 1;
  return 0;
}

// observe reads the machine's description. The lock is held.
static void observe(void) {
  Dl_info self;
  char path[4096], line[512], key[64], value[256];
  dladdr((void *)observe, &self);
  snprintf(path, sizeof path, "%s", self.dli_fname);
  char *slash = strrchr(path, '/');
  snprintf(slash ? slash + 1 : path, sizeof path - (slash ? slash + 1 - path : 0), "gpus");
  FILE *f = fopen(path, "r");
  memset(&machine, 0, sizeof machine);
  if (!f) { machine.result = DRIVER_NOT_LOADED; return; }
  while (fgets(line, sizeof line, f)) {
    value[0] = 0;
    if (sscanf(line, "%63s %255[^\n]", key, value) < 1) continue;
    if (!strcmp(key, "gpu") && machine.count < MAX_GPUS) machine.count++;
    else if (!strcmp(key, "driver")) snprintf(machine.driver, sizeof machine.driver, "%s", value);
    else if (!strcmp(key, "cuda")) machine.cuda = atoi(value);
    else if (!strcmp(key, "init")) machine.result = atoi(value);
    else if (!machine.count || !in_gpu(&machine.gpus[machine.count - 1], key, value))
      fprintf(stderr, "fake nvml: %s: what is %s?\n", path, key), abort();
  }
  fclose(f);
}

static gpu *of(void *device) { return &machine.gpus[(long)device - 1]; }

// Every function reads the description, and returns LOST for a lost device.
#define BEGIN pthread_mutex_lock(&lock); observe();
#define END(r) do { int _r = (r); pthread_mutex_unlock(&lock); return _r; } while (0)
#define ALIVE(d) BEGIN if (of(d)->lost) END(LOST);

int nvmlInit_v2(void) { BEGIN END(machine.result); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int r) {
  switch (r) {
  case OK: return "Success";
  case UNSUPPORTED: return "Not Supported";
  case DRIVER_NOT_LOADED: return "Driver Not Loaded";
  case TIMEOUT: return "Timeout";
  case LOST: return "GPU is lost";
  case 18: return "Driver/library version mismatch";
  }
  return "Unknown Error";
}
int nvmlSystemGetDriverVersion(char *v, u32 n) { BEGIN snprintf(v, n, "%s", machine.driver); END(OK); }
int nvmlSystemGetNVMLVersion(char *v, u32 n) { BEGIN snprintf(v, n, "%d.%s", machine.cuda / 1000, machine.driver); END(OK); }
int nvmlSystemGetCudaDriverVersion(int *v) { BEGIN *v = machine.cuda; END(OK); }
int nvmlDeviceGetCount_v2(u32 *n) { BEGIN *n = machine.count; END(OK); }
int nvmlDeviceGetHandleByIndex_v2(u32 i, void **d) { BEGIN if ((int)i >= machine.count) END(INVALID); *d = (void *)(long)(i + 1); END(OK); }

int nvmlDeviceGetName(void *d, char *v, u32 n) { ALIVE(d) snprintf(v, n, "%s", of(d)->name); END(OK); }
int nvmlDeviceGetUUID(void *d, char *v, u32 n) { ALIVE(d) snprintf(v, n, "%s", of(d)->uuid); END(OK); }

typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } pci;
int nvmlDeviceGetPciInfo_v3(void *d, pci *p) { ALIVE(d) memset(p, 0, sizeof *p); strcpy(p->bus_id, of(d)->pci); END(OK); }

typedef struct { u64 total, free, used; } memory;
int nvmlDeviceGetMemoryInfo(void *d, memory *m) { ALIVE(d) gpu *g = of(d); *m = (memory){g->total, g->total - g->used, g->used}; END(OK); }
int nvmlDeviceGetUtilizationRates(void *d, u32 *v) { ALIVE(d) v[0] = of(d)->gpu_util, v[1] = of(d)->memory_util; END(OK); }
int nvmlDeviceGetTemperature(void *d, int sensor, u32 *v) { ALIVE(d) *v = of(d)->temperature; END(sensor ? INVALID : OK); }
int nvmlDeviceGetPowerUsage(void *d, u32 *v) { ALIVE(d) *v = of(d)->power; END(OK); }
int nvmlDeviceGetEnforcedPowerLimit(void *d, u32 *v) { ALIVE(d) *v = of(d)->power_limit; END(OK); }
int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, u64 *v) {
  ALIVE(d) *v = kind ? of(d)->uncorrectable : of(d)->corrected;
  END(counter ? UNSUPPORTED : OK);
}
int nvmlDeviceGetCurrPcieLinkGeneration(void *d, u32 *v) { ALIVE(d) *v = of(d)->gen; END(OK); }
int nvmlDeviceGetCurrPcieLinkWidth(void *d, u32 *v) { ALIVE(d) *v = of(d)->width; END(OK); }
int nvmlDeviceGetMaxPcieLinkGeneration(void *d, u32 *v) { ALIVE(d) *v = of(d)->max_gen; END(OK); }
int nvmlDeviceGetMaxPcieLinkWidth(void *d, u32 *v) { ALIVE(d) *v = of(d)->max_width; END(OK); }
int nvmlDeviceGetTopologyCommonAncestor(void *d, void *to, u32 *v) { ALIVE(d) *v = of(d)->levels[(long)to - 1]; END(OK); }

int nvmlEventSetCreate(set **s) { *s = calloc(1, sizeof **s); return OK; }
int nvmlEventSetFree(set *s) { free(s); return OK; }
int nvmlDeviceRegisterEvents(void *d, u64 types, set *s) {
  ALIVE(d) s->index = (int)(long)d, s->taken = of(d)->nxids;
  END(types == 8 ? OK : UNSUPPORTED);
}
typedef struct { void *device; u64 type, data; u32 instance, compute; } event;
static int wait_event(set *s, event *e) {
  BEGIN
  gpu *g = of((void *)(long)s->index);
  if (s->taken >= g->nxids) END(TIMEOUT);
  e->device = (void *)(long)s->index, e->type = 8, e->data = g->xids[s->taken++];
  END(OK);
}
#ifdef OLD
int nvmlEventSetWait(set *s, event *e, u32 ms) { (void)ms; return wait_event(s, e); }
#else
int nvmlEventSetWait_v2(set *s, event *e, u32 ms) { (void)ms; return wait_event(s, e); }
int nvmlDeviceGetRemappedRows(void *d, u32 *corr, u32 *unc, u32 *pending, u32 *failed) {
  ALIVE(d) *corr = *unc = 0, *pending = of(d)->pending, *failed = of(d)->failed; END(OK);
}
int nvmlDeviceGetNvLinkState(void *d, u32 link, u32 *v) { ALIVE(d) if (link >= of(d)->nlinks) END(INVALID); *v = 1; END(OK); }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *d, u32 link, pci *p) {
  ALIVE(d) if (link >= of(d)->nlinks) END(INVALID);
  memset(p, 0, sizeof *p), strcpy(p->bus_id, of(d)->links[link]); END(OK);
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *d, u32 link, u32 *v) {
  ALIVE(d) if (link >= of(d)->nlinks) END(INVALID);
  *v = 2;
  for (int i = 0; i < machine.count; i++) if (!strcmp(machine.gpus[i].pci, of(d)->links[link])) *v = 0;
  END(OK);
}
#endif
