// Fault injection and inspection for tests: fakecuda_control, and the environment.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

// fault makes the n-th use, counted from now, of a named function or work fail.
struct fault {
  char what[80];
  long left;
  bool always;  // the n-th and each later one
  bool fired;
  bool sticky;  // breaks the device too
  CUresult code;
  struct fault *next;
};

static struct fault *faults;
static struct site *sites;

// arm parses "symbol@n=code", where symbol is a public function, "exec:copy", "exec:kernel" or
// "exec:" and a kernel's name. "n+" means the n-th and all later ones; a trailing "!" makes the
// error sticky.
static bool arm(const char *spec) {
  struct fault *f = calloc(1, sizeof *f);
  char n[16] = "", code[16] = "";
  if (sscanf(spec, "%79[^@]@%15[0-9+]=%15[0-9!]", f->what, n, code) != 3) {
    free(f);
    return false;
  }
  f->left = atol(n);
  f->always = strchr(n, '+') != NULL;
  f->code = atoi(code);
  f->sticky = strchr(code, '!') != NULL;
  f->next = faults;
  __atomic_store_n(&faults, f, __ATOMIC_RELEASE);
  return true;
}

static bool arm_all(const char *specs) {
  char *copy = strdup(specs), *rest = copy, *spec;
  bool good = true;
  while ((spec = strsep(&rest, ","))) good = good && (*spec == 0 || arm(spec));
  free(copy);
  return good;
}

static void disarm(void) {
  while (faults) {
    struct fault *next = faults->next;
    free(faults);
    faults = next;
  }
}

// fire returns the fault that is due for what, if any. The lock is held.
static struct fault *fire(const char *what) {
  struct fault *due = NULL;
  for (struct fault *f = faults; f; f = f->next) {
    if (strcmp(f->what, what) || f->left <= 0) continue;
    if (--f->left > 0) continue;
    if (f->always) f->left = 1;
    f->fired = true;
    due = f;
  }
  return due;
}

static void read_environment(void) {
  const char *kernels = getenv("FAKECUDA_KERNELS");
  if (kernels && *kernels) fake_host_kernels(kernels);
  const char *specs = getenv("FAKECUDA_FAULTS");
  if (specs && !arm_all(specs)) fprintf(stderr, "fakecuda: FAKECUDA_FAULTS=%s: want symbol@n=code[!],...\n", specs);
}

CUresult fake_enter(struct site *site) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, read_environment);
  __atomic_add_fetch(&site->calls, 1, __ATOMIC_RELAXED);
  if (__atomic_load_n(&site->known, __ATOMIC_ACQUIRE) && !__atomic_load_n(&faults, __ATOMIC_ACQUIRE)) return SUCCESS;
  pthread_mutex_lock(&fake.lock);
  if (!site->known) {
    site->next = sites;
    sites = site;
    __atomic_store_n(&site->known, true, __ATOMIC_RELEASE);
  }
  struct fault *f = fire(site->name);
  CUresult code = f ? f->code : SUCCESS;
  if (f && f->sticky && fake_current) fake_current->device->sticky = code;
  pthread_mutex_unlock(&fake.lock);
  return code;
}

// fake_execution_fault is called before work runs: a copy, or a kernel by its name. The lock is
// held.
CUresult fake_execution_fault(const char *what, const char *kernel) {
  struct fault *f = fire(what);
  if (kernel && !f) {
    char name[80];
    snprintf(name, sizeof name, "exec:%s", kernel);
    f = fire(name);
  }
  return f ? f->code : SUCCESS;
}

static long calls_of(const char *name) {
  for (struct site *s = sites; s; s = s->next)
    if (!strcmp(s->name, name)) return s->calls;
  return 0;
}

// unfired returns the number of faults that have not been triggered.
static long unfired(void) {
  long n = 0;
  for (struct fault *f = faults; f; f = f->next) n += !f->fired;
  return n;
}

static void revive(void) {
  for (int i = 0; i < MAX_DEVICES; i++) fake.devices[i].sticky = SUCCESS;
}

static long obey(const char *command) {
  if (!strncmp(command, "fault ", 6)) return arm_all(command + 6) ? 0 : -1;
  if (!strncmp(command, "kernels ", 8)) return fake_host_kernels(command + 8) ? 0 : -1;
  if (!strncmp(command, "calls ", 6)) return calls_of(command + 6);
  if (!strcmp(command, "clear")) return disarm(), 0;
  if (!strcmp(command, "revive")) return revive(), 0;
  if (!strcmp(command, "hold")) return fake.held = true, 0;
  if (!strcmp(command, "go")) return fake.held = false, 0;
  if (!strcmp(command, "live")) return fake.live;
  if (!strcmp(command, "unfired")) return unfired();
  return -1;
}

// fakecuda_control runs a command and returns its result, or -1 for an unknown command. README.md
// lists the commands.
API long fakecuda_control(const char *command) {
  pthread_mutex_lock(&fake.lock);
  long answer = obey(command);
  pthread_cond_broadcast(&fake.changed);
  pthread_mutex_unlock(&fake.lock);
  return answer;
}

// fakecuda_fault returns the injected fault for a call of another library that uses this one. made
// is the change in the number of live objects.
API int fakecuda_fault(const char *name, int made) {
  pthread_mutex_lock(&fake.lock);
  struct fault *f = fire(name);
  if (!f) fake_set_live(made);
  pthread_mutex_unlock(&fake.lock);
  return f ? f->code : SUCCESS;
}

// fakecuda_nothing is the cheapest possible call, for measuring the cost of a call.
API CUresult fakecuda_nothing(void) { return SUCCESS; }

// fakecuda_weigh checks that the stack is aligned, and writes a sum that shows whether each
// argument is in its place.
API CUresult fakecuda_weigh(uint64_t *sum, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h,
                            uint64_t i, uint64_t j, uint64_t k) {
  *sum = a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k;
  return (uintptr_t)__builtin_frame_address(0) % 16 ? INVALID_VALUE : SUCCESS;
}
