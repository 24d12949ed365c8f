// Events. Each record has its own generation, and a wait refers to the generation that was current
// when it was queued.
#include <stdlib.h>

#include "fake.h"

void fake_event_drop(struct event *e) {
  if (--e->references == 0) free(e);
}

API CUresult cuEventCreate(struct event **out, unsigned flags) {
  ENTER_CONTEXT("cuEventCreate");
  if (flags > 7) return INVALID_VALUE;
  *out = calloc(1, sizeof **out);
  **out = (struct event){.context = fake_current, .references = 1};
  pthread_mutex_lock(&fake.lock);
  fake_set_live(1);
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

API CUresult cuEventDestroy_v2(struct event *e) {
  ENTER("cuEventDestroy_v2");
  pthread_mutex_lock(&fake.lock);
  fake_event_drop(e);
  fake_set_live(-1);
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

// mark queues a task for an event. The lock is held. A capture consists of copies and kernels on
// one stream, so events are not allowed in it.
static CUresult mark(struct stream *s, struct event *e, enum task_kind kind, uint64_t generation) {
  if (s->capture) {
    s->invalidated = true;
    return CAPTURE_UNSUPPORTED;
  }
  e->references++;
  fake_enqueue(s, fake_task(&(struct task){.kind = kind, .event = e, .generation = generation}));
  return SUCCESS;
}

API CUresult cuEventRecord(struct event *e, struct stream *s) {
  ENTER_CONTEXT("cuEventRecord");
  if (e->context != s->context) return INVALID_HANDLE;
  pthread_mutex_lock(&fake.lock);
  CUresult result = mark(s, e, RECORD, e->recorded + 1);
  if (!result) e->recorded++;
  pthread_mutex_unlock(&fake.lock);
  return result;
}

API CUresult cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags) {
  ENTER_CONTEXT("cuStreamWaitEvent");
  if (flags) return INVALID_VALUE;
  pthread_mutex_lock(&fake.lock);
  CUresult result = mark(s, e, WAIT, e->recorded);
  pthread_mutex_unlock(&fake.lock);
  return result;
}

API CUresult cuEventQuery(struct event *e) {
  ENTER_CONTEXT("cuEventQuery");
  pthread_mutex_lock(&fake.lock);
  // Work that failed since the check above must not look successful.
  CUresult result = e->done < e->recorded ? NOT_READY : fake_context_status();
  pthread_mutex_unlock(&fake.lock);
  return result;
}

API CUresult cuEventSynchronize(struct event *e) {
  ENTER_CONTEXT("cuEventSynchronize");
  pthread_mutex_lock(&fake.lock);
  uint64_t generation = e->recorded;
  while (e->done < generation) pthread_cond_wait(&fake.changed, &fake.lock);
  pthread_mutex_unlock(&fake.lock);
  return fake_context_status();
}
