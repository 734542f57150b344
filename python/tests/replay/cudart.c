/* Stands in for CUDA's runtime library: a device with `limit` bytes, in units of 256. */
#include <stddef.h>
#include <stdlib.h>

static size_t limit = 1 << 20, held, highest;

static size_t rounded(size_t size) { return (size + 255) / 256 * 256; }

int cudaSetDevice(int number) { return number == 0 ? 0 : 101; }

int cudaMalloc(void **out, size_t size) {
    if (held + rounded(size) > limit) return 2;
    size_t *made = aligned_alloc(256, rounded(size) + 256);
    if (!made) return 2;
    *made = rounded(size);
    held += *made;
    if (held > highest) highest = held;
    *out = (char *)made + 256;
    return 0;
}

int cudaFree(void *address) {
    if (!address) return 0;
    size_t *made = (size_t *)((char *)address - 256);
    held -= *made;
    free(made);
    return 0;
}

int cudaMemGetInfo(size_t *available, size_t *total) {
    *available = limit - held, *total = limit;
    return 0;
}

void set_limit(size_t bytes) { limit = bytes, highest = held; }
size_t highest_bytes(void) { return highest; }
