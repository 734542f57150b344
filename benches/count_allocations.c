/* Counts the bytes that a process holds from posix_memalign and aligned_alloc: what ONNX Runtime's CPU allocator asks for, and nothing else.
 * Preload it; held_bytes, highest_bytes and restart_count are called from Python. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { SLOTS = 1 << 20 };
struct block { void *address; size_t size; };

static struct block blocks[SLOTS];
static size_t held, highest;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The slot of an address, or the empty one where it would go; a block that was freed keeps its address with size 0. */
static struct block *slot(void *address) {
    size_t at = ((uintptr_t)address >> 5) * 0x9E3779B97F4A7C15u >> 44;
    while (blocks[at % SLOTS].address && blocks[at % SLOTS].address != address) at++;
    return &blocks[at % SLOTS];
}

static void *count(size_t alignment, size_t size) {
    static void *(*aligned)(size_t, size_t);
    if (!aligned) aligned = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "memalign");
    void *made = aligned(alignment, size);
    if (!made) return NULL;
    pthread_mutex_lock(&lock);
    struct block *block = slot(made);
    block->address = made;
    block->size = size;
    held += size;
    if (held > highest) highest = held;
    pthread_mutex_unlock(&lock);
    return made;
}

void *aligned_alloc(size_t alignment, size_t size) { return count(alignment, size); }

int posix_memalign(void **out, size_t alignment, size_t size) {
    void *made = count(alignment, size);
    if (!made) return ENOMEM;
    *out = made;
    return 0;
}

void free(void *address) {
    static void (*release)(void *);
    if (!release) release = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    if (address && ((uintptr_t)address & 31) == 0) {
        pthread_mutex_lock(&lock);
        struct block *block = slot(address);
        if (block->address) { held -= block->size; block->size = 0; }
        pthread_mutex_unlock(&lock);
    }
    release(address);
}

size_t held_bytes(void) { return held; }
size_t highest_bytes(void) { return highest; }
void restart_count(void) { pthread_mutex_lock(&lock); highest = held; pthread_mutex_unlock(&lock); }
