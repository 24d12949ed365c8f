// A fake libcublas.so on the fake driver, with the functions of cuBLAS that cuda/driver calls. It
// computes real products. Like the original it chooses its algorithm by the sizes: here, the number
// of slices of a sum. So other sizes give other bits.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define API __attribute__((visibility("default")))

enum { SUCCESS, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { R_32F = 0, R_16F = 2, R_16BF = 14 };

struct handle {
  void *stream;
};

static int (*run_on)(void *stream, const char *name, int (*run)(const void *), const void *parameter, size_t bytes);
static int (*fault)(const char *name, int made);

__attribute__((constructor)) static void find_driver(void) {
  void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
  if (!driver) return;
  *(void **)&run_on = dlsym(driver, "fakecuda_run");
  *(void **)&fault = dlsym(driver, "fakecuda_fault");
}

#define ENTER(symbol, made)                      \
  if (!run_on || !fault) return NOT_INITIALIZED; \
  int early_ = fault(symbol, made);              \
  if (early_) return early_

API int cublasCreate_v2(struct handle **out) {
  ENTER("cublasCreate_v2", 1);
  *out = calloc(1, sizeof **out);
  return SUCCESS;
}

API int cublasDestroy_v2(struct handle *h) {
  ENTER("cublasDestroy_v2", -1);
  free(h);
  return SUCCESS;
}

API int cublasGetVersion_v2(struct handle *h, int *version) {
  *version = 120405;
  return h ? SUCCESS : NOT_INITIALIZED;
}

API int cublasSetStream_v2(struct handle *h, void *stream) {
  ENTER("cublasSetStream_v2", 0);
  h->stream = stream;
  return SUCCESS;
}

API int cublasSetWorkspace_v2(struct handle *h, void *workspace, size_t bytes) {
  ENTER("cublasSetWorkspace_v2", 0);
  return h && workspace && bytes && (uintptr_t)workspace % 256 == 0 ? SUCCESS : INVALID_VALUE;
}

// product is C = alpha · Aᵀ · B + beta · C, column-major.
struct product {
  int m, n, k, lda, ldb, ldc, type;
  float alpha, beta;
  const void *a, *b;
  float *c;
};

static float element(const void *p, long i, int type) {
  union {
    uint32_t bits;
    float value;
  } x;
  if (type == R_32F) return ((const float *)p)[i];
  uint32_t half = ((const uint16_t *)p)[i], sign = half >> 15 << 31, exponent = half >> 10 & 31, fraction = half & 1023;
  x.bits = half << 16;
  if (type == R_16BF) return x.value;
  x.bits = sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
  if (!exponent) x.value = (sign ? -1.f : 1.f) * (float)fraction / (1 << 24);
  return x.value;
}

static float dot(const struct product *p, long row, long column, int slices) {
  float sum = 0;
  for (int s = 0; s < slices; s++) {
    float part = 0;
    for (int k = s; k < p->k; k += slices)
      part += element(p->a, row * p->lda + k, p->type) * element(p->b, column * p->ldb + k, p->type);
    sum += part;
  }
  return sum;
}

static int multiply(const void *parameter) {
  const struct product *p = parameter;
  int slices = 1 + (p->m + p->n) % 5;
  for (long column = 0; column < p->n; column++)
    for (long row = 0; row < p->m; row++) {
      float *c = p->c + column * p->ldc + row;
      *c = p->alpha * dot(p, row, column, slices) + (p->beta != 0 ? p->beta * *c : 0);
    }
  return SUCCESS;
}

API int cublasGemmEx(struct handle *h, int transa, int transb, int m, int n, int k, const float *alpha, const void *a, int atype, int lda,
                     const void *b, int btype, int ldb, const float *beta, void *c, int ctype, int ldc, int compute, int algorithm) {
  ENTER("cublasGemmEx", 0);
  if (transa != 1 || transb != 0 || atype != btype || ctype != R_32F || compute != 68 || algorithm != -1) return NOT_SUPPORTED;
  if (atype != R_32F && atype != R_16F && atype != R_16BF) return NOT_SUPPORTED;
  if (m <= 0 || n <= 0 || k <= 0 || lda < k || ldb < k || ldc < m) return INVALID_VALUE;
  struct product p = {.m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc, .type = atype, .alpha = *alpha, .beta = *beta, .a = a, .b = b, .c = c};
  return run_on(h->stream, "cublasGemmEx", multiply, &p, sizeof p) ? EXECUTION_FAILED : SUCCESS;
}
