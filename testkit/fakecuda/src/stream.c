// Streams: each has a thread that does its work in order.
#include <stdlib.h>
#include <string.h>

#include "fake.h"

struct task *fake_task(const struct task *from) {
  struct task *t = malloc(sizeof *t);
  *t = *from;
  t->next = NULL;
  if (t->kind == LAUNCH) {
    t->parameter = malloc(t->kernel->parameter_bytes + 1);
    memcpy(t->parameter, from->parameter, t->kernel->parameter_bytes);
  }
  return t;
}

void fake_task_free(struct task *task) {
  if (task->kind == LAUNCH) free(task->parameter);
  free(task);
}

static uint64_t host_end(const struct task *t) { return t->to_device ? t->from : t->to; }

// copy and launch run without the lock, while memory cannot be freed. Host memory that was unlocked after the copy was
// queued may be unmapped.
static CUresult copy(const struct task *t) {
  pthread_mutex_lock(&fake.lock);
  bool good = (!t->to_device || fake_covered(t->to, t->bytes)) && (!t->from_device || fake_covered(t->from, t->bytes)) &&
              (!t->pinned || fake_pinned(host_end(t), t->bytes));
  pthread_mutex_unlock(&fake.lock);
  if (!good) return ILLEGAL_ADDRESS;
  memmove((void *)t->to, (void *)t->from, t->bytes);
  return SUCCESS;
}

static CUresult run(const struct task *t) {
  pthread_rwlock_rdlock(&fake.in_use);
  CUresult result = t->kind == COPY ? copy(t) : fake_run_kernel(t);
  pthread_rwlock_unlock(&fake.in_use);
  return result;
}

// work runs a copy or a launch, unless a fault is injected. The lock is held, but not while the
// work runs. A failure here is sticky, since no caller is waiting for the result.
static void work(struct stream *s, const struct task *t) {
  struct device *d = s->context->device;
  while (fake.held) pthread_cond_wait(&fake.changed, &fake.lock);
  if (d->sticky) return;
  CUresult result = fake_execution_fault(t->kind == COPY ? "exec:copy" : "exec:kernel", t->kind == LAUNCH ? t->kernel->name : NULL);
  if (!result) {
    pthread_mutex_unlock(&fake.lock);
    result = run(t);
    pthread_mutex_lock(&fake.lock);
  }
  if (result) __atomic_store_n(&d->sticky, result, __ATOMIC_RELEASE);
}

static void perform(struct stream *s, struct task *t) {
  switch (t->kind) {
    case RECORD:
      t->event->done = t->generation;
      fake_event_drop(t->event);
      break;
    case WAIT:
      while (t->event->done < t->generation) pthread_cond_wait(&fake.changed, &fake.lock);
      fake_event_drop(t->event);
      break;
    default: work(s, t);
  }
}

static void *worker(void *argument) {
  struct stream *s = argument;
  pthread_mutex_lock(&fake.lock);
  for (;;) {
    while (!s->first && !s->closing) pthread_cond_wait(&s->more, &fake.lock);
    struct task *t = s->first;
    if (!t) break;
    s->first = t->next;
    s->busy = true;
    perform(s, t);
    s->busy = false;
    fake_task_free(t);
    pthread_cond_broadcast(&fake.changed);
  }
  pthread_mutex_unlock(&fake.lock);
  return NULL;
}

// fake_enqueue queues a task. The lock is held.
void fake_enqueue(struct stream *s, struct task *task) {
  struct task **link = s->first ? &s->last->next : &s->first;
  *link = s->last = task;
  pthread_cond_signal(&s->more);
}

// fake_submit queues a copy or a launch on a stream, or adds it to the graph that the stream
// captures.
CUresult fake_submit(struct stream *s, struct task task) {
  struct task *t = fake_task(&task);
  pthread_mutex_lock(&fake.lock);
  if (s->capture) {
    struct task **link = s->capture->first ? &s->capture->last->next : &s->capture->first;
    *link = s->capture->last = t;
  } else {
    fake_enqueue(s, t);
  }
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

CUresult fake_stream_create(struct stream **out, struct context *context) {
  struct stream *s = calloc(1, sizeof *s);
  s->context = context;
  pthread_cond_init(&s->more, NULL);
  if (pthread_create(&s->worker, NULL, worker, s)) return free(s), OUT_OF_MEMORY;
  pthread_mutex_lock(&fake.lock);
  fake_set_live(1);
  pthread_mutex_unlock(&fake.lock);
  *out = s;
  return SUCCESS;
}

API CUresult cuStreamCreateWithPriority(struct stream **out, unsigned flags, int priority) {
  ENTER_CONTEXT("cuStreamCreateWithPriority");
  if (flags > 1 || priority > 0 || fake_current->green) return INVALID_VALUE;
  return fake_stream_create(out, fake_current);
}

// Destroying a stream waits for its work. NVIDIA's driver lets it continue, but the difference
// shows only in leaks.
API CUresult cuStreamDestroy_v2(struct stream *s) {
  ENTER("cuStreamDestroy_v2");
  pthread_mutex_lock(&fake.lock);
  s->closing = true;
  pthread_cond_signal(&s->more);
  pthread_mutex_unlock(&fake.lock);
  pthread_join(s->worker, NULL);
  pthread_mutex_lock(&fake.lock);
  fake_set_live(s->capture ? -2 : -1);
  pthread_mutex_unlock(&fake.lock);
  if (s->capture) fake_graph_free(s->capture);
  pthread_cond_destroy(&s->more);
  free(s);
  return SUCCESS;
}

API CUresult cuStreamQuery(struct stream *s) {
  ENTER_CONTEXT("cuStreamQuery");
  pthread_mutex_lock(&fake.lock);
  // Work that failed since the check above must not look successful.
  CUresult result = s->first || s->busy ? NOT_READY : fake_context_status();
  if (s->capture) {
    s->invalidated = true;
    result = CAPTURE_UNSUPPORTED;
  }
  pthread_mutex_unlock(&fake.lock);
  return result;
}

API CUresult cuStreamSynchronize(struct stream *s) {
  ENTER_CONTEXT("cuStreamSynchronize");
  pthread_mutex_lock(&fake.lock);
  while (s->first || s->busy) pthread_cond_wait(&fake.changed, &fake.lock);
  pthread_mutex_unlock(&fake.lock);
  return fake_context_status();
}

static CUresult submit_copy(struct stream *s, uint64_t to, bool to_device, uint64_t from, bool from_device, size_t bytes) {
  if (s->context != fake_current) return INVALID_HANDLE;
  if (!bytes) return SUCCESS;
  struct task t = {.kind = COPY, .to = to, .from = from, .bytes = bytes, .to_device = to_device, .from_device = from_device};
  pthread_mutex_lock(&fake.lock);
  bool good = (!to_device || fake_covered(to, bytes)) && (!from_device || fake_covered(from, bytes));
  t.pinned = !(to_device && from_device) && fake_pinned(host_end(&t), bytes);
  pthread_mutex_unlock(&fake.lock);
  if (!good) return INVALID_VALUE;
  return fake_submit(s, t);
}

API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, struct stream *s) {
  ENTER_CONTEXT("cuMemcpyHtoDAsync_v2");
  return submit_copy(s, to, true, (uint64_t)from, false, bytes);
}

API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, struct stream *s) {
  ENTER_CONTEXT("cuMemcpyDtoHAsync_v2");
  return submit_copy(s, (uint64_t)to, false, from, true, bytes);
}

API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, struct stream *s) {
  ENTER_CONTEXT("cuMemcpyDtoDAsync_v2");
  return submit_copy(s, to, true, from, true, bytes);
}

API CUresult cuMemcpyPeerAsync(CUdeviceptr to, struct context *to_context, CUdeviceptr from, struct context *from_context, size_t bytes,
                               struct stream *s) {
  ENTER_CONTEXT("cuMemcpyPeerAsync");
  if (!to_context || !from_context) return INVALID_CONTEXT;
  return submit_copy(s, to, true, from, true, bytes);
}
