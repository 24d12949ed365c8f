// Graphs: the copies and kernels of one stream, in order.
#include <stdlib.h>

#include "fake.h"

void fake_graph_free(struct graph *g) {
  while (g->first) {
    struct task *next = g->first->next;
    fake_task_free(g->first);
    g->first = next;
  }
  free(g);
}

static void count(int change) {
  pthread_mutex_lock(&fake.lock);
  fake_set_live(change);
  pthread_mutex_unlock(&fake.lock);
}

API CUresult cuStreamBeginCapture_v2(struct stream *s, int mode) {
  ENTER_CONTEXT("cuStreamBeginCapture_v2");
  if (mode < 0 || mode > 2) return INVALID_VALUE;
  if (s->capture) return CAPTURE_UNMATCHED;
  s->capture = calloc(1, sizeof *s->capture);
  s->invalidated = false;
  count(1);
  return SUCCESS;
}

API CUresult cuStreamEndCapture(struct stream *s, struct graph **out) {
  ENTER_CONTEXT("cuStreamEndCapture");
  if (!s->capture) return CAPTURE_UNMATCHED;
  struct graph *g = s->capture;
  s->capture = NULL;
  *out = NULL;
  if (s->invalidated) {
    fake_graph_free(g);
    count(-1);
    return CAPTURE_INVALIDATED;
  }
  *out = g;
  return SUCCESS;
}

API CUresult cuGraphInstantiateWithFlags(struct graph **out, const struct graph *g, unsigned long long flags) {
  ENTER_CONTEXT("cuGraphInstantiateWithFlags");
  if (flags) return INVALID_VALUE;
  *out = calloc(1, sizeof **out);
  for (const struct task *t = g->first; t; t = t->next) {
    struct task **link = (*out)->first ? &(*out)->last->next : &(*out)->first;
    *link = (*out)->last = fake_task(t);
  }
  count(1);
  return SUCCESS;
}

API CUresult cuGraphLaunch(const struct graph *g, struct stream *s) {
  ENTER_CONTEXT("cuGraphLaunch");
  if (s->capture) return CAPTURE_UNSUPPORTED;
  for (const struct task *t = g->first; t; t = t->next) fake_submit(s, *t);
  return SUCCESS;
}

API CUresult cuGraphDestroy(struct graph *g) {
  ENTER("cuGraphDestroy");
  fake_graph_free(g);
  count(-1);
  return SUCCESS;
}

API CUresult cuGraphExecDestroy(struct graph *g) {
  ENTER("cuGraphExecDestroy");
  fake_graph_free(g);
  count(-1);
  return SUCCESS;
}
