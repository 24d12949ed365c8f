#include "../device.h"

#include <string.h>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

thread_local Place place;

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

enum { MaxThreads = 1024, StackBytes = 64 << 10 };
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
  const Entry *entry;
  const void *op;
  Context scheduler;
  Fiber fibers[MaxThreads];
  Warp warps[MaxThreads / 32];
  Meeting all;
  int threads, live;
  bool failed;
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
    self().at = &m;
    self().round = m.round;
    switch_to(self().context, scheduler);
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
    const bool backwards = (place.block_x + place.block_y) % 2;
    for (;;) {
      bool moved = false;
      for (int i = 0; i < threads / 32; i++) moved |= run_warp(backwards ? threads / 32 - 1 - i : i, backwards);
      if (failed) return Failed;
      if (!live) return Done;
      if (!moved) return Deadlock;
    }
  }

  // run_warp runs a warp until all its threads have ended or wait for other warps.
  bool run_warp(int warp, bool backwards) {
    bool any = false;
    for (bool moved = true; moved; any |= moved) {
      moved = false;
      for (int i = 0; i < 32 && !failed; i++) {
        Fiber &f = fibers[place.thread = warp * 32 + (backwards ? 31 - i : i)];
        if (f.ended || (f.at && f.at->round == f.round)) continue;
        f.at = 0;
        moved = true;
        switch_to(scheduler, f.context);
      }
    }
    return any;
  }

  static void fiber();
};

static thread_local Machine machine;

void Machine::fiber() {
  machine.entry->run(machine.op);
  machine.self().ended = true;
  // Threads that have ended are no longer waited for.
  if (--machine.live && machine.all.arrived == machine.live) machine.all.arrived = 0, machine.all.round++;
  switch_to(machine.self().context, machine.scheduler);
}

void barrier() { machine.meet(machine.all, machine.live); }

const Words *exchange(const u32 *words, int n) {
  Warp &w = machine.warps[place.thread / 32];
  Words *round = w.words[w.meeting.round % 2];
  memcpy(round[place.thread % 32], words, sizeof(u32) * n);
  machine.meet(w.meeting, 32);
  return round;
}

void fail() {
  machine.failed = true;
  switch_to(machine.self().context, machine.scheduler);
  __builtin_unreachable();
}

static Result run_grid(const Entry &e, const void *op, const unsigned g[7]) {
  if (g[2] != 1 || g[3] != e.threads || g[4] != 1 || g[5] != 1 || g[6] || g[1] > 65535) return WrongGeometry;
  Machine &m = machine;
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
