#include "../device.h"

#include <string.h>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

__thread Place place;

static Entry *entries;

Entry::Entry(const char *name, unsigned long param_bytes, unsigned threads, void (*run)(const void *))
    : name(name), param_bytes(param_bytes), threads(threads), run(run), next(entries) {
  entries = this;
}

#if defined(__x86_64__)
// A context is a stack pointer, with the callee-saved registers below it.
typedef void *Context;
extern "C" void troupe_switch(Context *from, Context to);
asm(R"(
.hidden troupe_switch
troupe_switch:
  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
  ret
)");
static void switch_to(Context &from, Context &to) { troupe_switch(&from, to); }
static void prepare(Context &c, char *stack, size_t bytes, void (*run)()) {
  void **top = (void **)(stack + bytes) - 8; // as after a call: the return address is 8 below a multiple of 16
  top[6] = (void *)run;
  c = top;
}
#else
typedef ucontext_t Context;
static void switch_to(Context &from, Context &to) { swapcontext(&from, &to); }
static void prepare(Context &c, char *stack, size_t bytes, void (*run)()) {
  getcontext(&c);
  c.uc_stack.ss_sp = stack;
  c.uc_stack.ss_size = bytes;
  makecontext(&c, run, 0);
}
#endif

// Stacks are not a power of two apart, so that the tops of all fit into a processor's cache at once.
enum { MaxThreads = 1024, StackBytes = (64 << 10) + 5 * 64 };
enum Result { Done, UnknownEntry, WrongParameter, WrongGeometry, Failed, Deadlock };

// Meeting is a barrier of fibers. It is over when round increases.
struct Meeting {
  u32 round;
  int arrived;
};

struct Fiber {
  Context context;
  const Meeting *at; // what it waits for, or none
  u32 round;
  bool ended;
};

struct Warp {
  Meeting meeting;
  Words words[2][32]; // of this round, and of the one before, which some may not have read yet
};

// Machine runs one block at a time.
struct Machine {
  Place &place = ::place;
  const Entry *entry;
  const void *op;
  Context scheduler;
  Fiber fibers[MaxThreads];
  Warp warps[MaxThreads / 32];
  Meeting all;
  int threads, live;
  bool backwards, failed;
  char *stacks;

  Machine() {
    stacks = (char *)mmap(0, (size_t)MaxThreads * StackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~Machine() { munmap(stacks, (size_t)MaxThreads * StackBytes); }

  Fiber &self() { return fibers[place.thread]; }

  // meet waits until the given number of fibers have arrived.
  void meet(Meeting &m, int expected) {
    if (++m.arrived == expected) {
      m.arrived = 0;
      m.round++;
      return;
    }
    Fiber &f = self();
    f.at = &m;
    f.round = m.round;
    Fiber *next = next_of_warp();
    switch_to(f.context, next ? next->context : scheduler);
  }

  // runnable reports whether a fiber can run, and lets it no longer wait.
  static bool runnable(Fiber &f) {
    if (f.ended || (f.at && f.at->round == f.round)) return false;
    f.at = 0;
    return true;
  }

  // next_of_warp returns the fiber that run_warp would run after this one, or none if it is the last of its turn.
  Fiber *next_of_warp() {
    const int step = backwards ? -1 : 1, end = backwards ? -1 : 32;
    for (int i = place.thread % 32 + step; i != end; i += step) {
      Fiber &f = fibers[place.thread / 32 * 32 + i];
      if (!runnable(f)) continue;
      place.thread = place.thread / 32 * 32 + i;
      return &f;
    }
    return 0;
  }

  Result run_block() {
    memset(warps, 0, sizeof(Warp) * (threads / 32));
    all = {};
    live = threads;
    for (int i = 0; i < threads; i++) {
      fibers[i].at = 0;
      fibers[i].ended = false;
      prepare(fibers[i].context, stacks + (size_t)i * StackBytes, StackBytes, fiber);
    }
    // Every other block runs its threads backwards: results must not depend on their order.
    backwards = (place.block_x + place.block_y) % 2;
    for (;;) {
      bool moved = false;
      for (int i = 0; i < threads / 32; i++) moved |= run_warp(backwards ? threads / 32 - 1 - i : i);
      if (failed) return Failed;
      if (!live) return Done;
      if (!moved) return Deadlock;
    }
  }

  // run_warp runs a warp until all its threads have ended or wait for other warps.
  bool run_warp(int warp) {
    bool any = false;
    for (bool moved = true; moved && !failed; any |= moved) {
      // Those that wait and can run again go on in turn, each switching to the next, the last one to this function.
      moved = false;
      for (int i = 0; i < 32; i++) {
        Fiber &f = fibers[place.thread = warp * 32 + (backwards ? 31 - i : i)];
        if (!runnable(f)) continue;
        moved = true;
        switch_to(scheduler, f.context);
        break;
      }
    }
    return any;
  }

  static void fiber();
};

static thread_local Machine machine;

void Machine::fiber() {
  Machine &m = *::place.machine;
  m.entry->run(m.op);
  Fiber &f = m.self();
  f.ended = true;
  // Threads that have ended are no longer waited for.
  if (--m.live && m.all.arrived == m.live) m.all.arrived = 0, m.all.round++;
  Fiber *next = m.next_of_warp();
  switch_to(f.context, next ? next->context : m.scheduler);
}

void meet_block(Place &place) { place.machine->meet(place.machine->all, place.machine->live); }

Words *words(const Place &place) {
  Warp &w = place.machine->warps[place.thread / 32];
  return w.words[w.meeting.round % 2];
}

void meet_warp(Place &place) { place.machine->meet(place.machine->warps[place.thread / 32].meeting, 32); }

void fail() {
  Machine &m = *place.machine;
  m.failed = true;
  switch_to(m.self().context, m.scheduler);
  __builtin_unreachable();
}

static Result run_grid(const Entry &e, const void *op, const unsigned g[7]) {
  if (g[2] != 1 || g[3] != e.threads || g[4] != 1 || g[5] != 1 || g[6] || g[1] > 65535) return WrongGeometry;
  Machine &m = machine;
  place.machine = &m;
  m.entry = &e;
  m.op = op;
  m.threads = e.threads;
  m.failed = false;
  place.blocks_y = g[1];
  for (unsigned y = 0; y < g[1]; y++)
    for (unsigned x = 0; x < g[0]; x++) {
      place.block_x = x;
      place.block_y = y;
      if (Result r = m.run_block()) return r;
    }
  return Done;
}

int Entry::launch(const void *op, const unsigned geometry[7]) const {
  switch (run_grid(*this, op, geometry)) {
  case Done: return 0;
  case WrongGeometry: return 1; // CUDA_ERROR_INVALID_VALUE
  case Deadlock: return 702;    // CUDA_ERROR_LAUNCH_TIMEOUT
  default: return 719;          // CUDA_ERROR_LAUNCH_FAILED
  }
}

// troupe_host_launch runs a kernel on memory of this process, in the calling thread. It returns a
// Result.
extern "C" int troupe_host_launch(const char *entry, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
                                  const void *param, size_t param_bytes) {
  const Entry *e = entries;
  while (e && strcmp(e->name, entry)) e = e->next;
  if (!e) return UnknownEntry;
  if (param_bytes != e->param_bytes) return WrongParameter;
  const unsigned geometry[7] = {grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes};
  return run_grid(*e, param, geometry);
}

// troupe_host_entry returns the size of the i-th kernel's parameter and its name, or 0 past the
// last.
extern "C" size_t troupe_host_entry(int i, const char **name) {
  const Entry *e = entries;
  for (; e && i; i--) e = e->next;
  if (!e) return 0;
  *name = e->name;
  return e->param_bytes;
}
